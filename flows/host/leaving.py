"""How a forked process ends: as Python does, but for taking its objects apart.

They stand in pages that it shares with the process it was forked from, each of which would be
copied to be written: a quarter of a second, for what the kernel takes back at once.
"""

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def leaving() -> Iterator[None]:
    """The process ends with this block, after its threads and what is to be done at exit.

    Who leaves it by another exception than an exit ends as ever, with a traceback.
    """
    code = 0
    try:
        yield
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # else Python says so, and ends with 120
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)
