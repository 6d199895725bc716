"""As whom a command runs: somebody the image knows, and never root.

Root here is process 1's own user. A command that was root could leave its mark, and write
into the supervisor's memory; any other user has no capability and keeps none.
"""

from __future__ import annotations

import pwd
from typing import NamedTuple

ROOT = 0


class User(NamedTuple):
    """Ids and home, as the image has them; of the user's groups only the primary one."""

    uid: int
    gid: int
    home: str


def find_user(name: str) -> User:
    """The user of this name or number.

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
    return User(found.pw_uid, found.pw_gid, found.pw_dir)
