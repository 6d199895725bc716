"""Who sits at this terminal."""

import os
from getpass import getuser


def user_name() -> str:
    """Their name on this machine, or their number where it has none for them."""
    try:
        return getuser()
    except (KeyError, OSError):  # as in a container that is begun with a bare uid
        return f"uid {os.getuid()}"
