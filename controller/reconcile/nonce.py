"""Nonces of calls to machines."""

import secrets


def new_nonce() -> str:
    """Sixteen hex digits that no other call has: a report without them is not this call's answer."""
    return secrets.token_hex(8)
