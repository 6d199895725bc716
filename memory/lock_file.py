"""A lock file that is waited for, though not for ever: its holder may have been stopped."""

import fcntl
from io import TextIOWrapper
from time import monotonic, sleep

_AGAIN_S = 0.002


def acquire_lock(lock: TextIOWrapper, within_s: float) -> bool:
    """Lock an open file; False when another held it for all of `within_s`. Closing it lets go."""
    until = monotonic() + within_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > until:
                return False
            sleep(_AGAIN_S)
        else:
            return True
