"""The users that commands may run as: those of the image, except root.

Root is the user of process 1. A command that is root could remove its mark and write to the
memory of the supervisor; any other user has no capability and can gain none.
"""

from __future__ import annotations

import pwd

ROOT = 0
AGENT = 1000
"""User and group id of commands that name no other user."""


def find_user(name: str) -> pwd.struct_passwd:
    """Return the user of this name or number in the image.

    Raises:
        LookupError: there is no such user, or it is root.
    """
    try:
        number = name.isascii() and name.isdigit()
        found = pwd.getpwuid(int(name)) if number else pwd.getpwnam(name)
    except (KeyError, ValueError, OverflowError):
        raise LookupError(f"no user {name!r} in the sandbox") from None
    if found.pw_uid == ROOT:
        raise LookupError(f"user {name!r} is root, and no command may be root in the sandbox")
    return found
