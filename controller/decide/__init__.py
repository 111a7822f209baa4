"""Decisions, pure: (object, observation, now) -> Plan. No I/O, no clock, no randomness."""
