"""As whom a command runs: somebody the image knows, and never root.

Root here is process 1's own user. A command that was root could leave its mark, and write
into the supervisor's memory; any other user has no capability and keeps none.
"""

from __future__ import annotations

import pwd

ROOT = 0
AGENT = 1000
"""User and group id of everything that is not the supervisor, unless a command names another."""


def find_user(name: str) -> pwd.struct_passwd:
    """The user of this name or number, as the image has it.

    Raises:
        LookupError: there is none, or it is root.
    """
    try:
        number = name.isascii() and name.isdigit()
        found = pwd.getpwuid(int(name)) if number else pwd.getpwnam(name)
    except (KeyError, ValueError, OverflowError):
        raise LookupError(f"no user {name!r} in the sandbox") from None
    if found.pw_uid == ROOT:
        raise LookupError(f"user {name!r} is root, and no command may be root in the sandbox")
    return found
