"""What runs on the rented machine, and how the operator talks to it.

``bundle`` makes the directory that is copied to a machine, ``commands`` builds the one-line shell commands for
``brev exec`` and reads their reports, ``protocol`` names what they say, and ``runner`` is the program that is shipped.
"""
