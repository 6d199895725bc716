"""Python imports this at start where its folder is on PYTHONPATH: it records called functions."""

import os
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

_ROOT = os.environ.get("EXECUTED_IN", "") + os.sep
_SKIPPED = ("tests/", "benchmarks/", "migrations/", ".venv/")
_seen: set[CodeType] = set()


def _record(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if event != "call" or code in _seen:
        return
    _seen.add(code)
    is_function = code.co_flags & CO_OPTIMIZED  # modules and class bodies are not
    if not is_function or not code.co_filename.startswith(_ROOT):
        return
    file = code.co_filename.removeprefix(_ROOT)
    if not file.startswith(_SKIPPED):
        # One write per function: a killed or forked process loses nothing.
        with Path(os.environ["EXECUTED_TO"], str(os.getpid())).open("a") as to:
            to.write(f"{file}\t{code.co_qualname}\n")


if "EXECUTED_TO" in os.environ:
    threading.setprofile(_record)
    sys.setprofile(_record)
