"""Where the command `harness` begins: before what takes a fifth of a second to import."""

import os
import signal
import sys
from io import TextIOWrapper


def main() -> None:
    """Import the command line and run it.

    A Ctrl-C while it is imported finds nothing begun: the process ends by the signal, as a
    shell's own commands do, without a traceback. If Ctrl-C was ignored when we were started
    (by `nohup`, or as a background job), it stays ignored.
    """
    _open_streams()
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _open_streams() -> None:
    """Have all three, and no text that they cannot take: whatever was typed or kept is told."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if vars(sys)[name] is None:  # closed, as by `<&-`: else a file of ours would take its place
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
        stream: object = vars(sys)[name]
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if number else "surrogateescape")
