"""Name of the user at this terminal, for decisions and edits."""

import os
from getpass import getuser


def user_name() -> str:
    """Return the user's login name, or `uid N` if this machine has no name for the user."""
    try:
        return getuser()
    except (KeyError, OSError):  # for example in a container that was started with a bare uid
        return f"uid {os.getuid()}"
