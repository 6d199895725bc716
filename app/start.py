"""Entry point of the command `harness`: prepares the process, then imports the command line."""

import os
import signal
import sys
from io import TextIOWrapper

from flows.host.command_forks import execute_forked, start_server

FORKED = (
    "run", "runs", "plan", "demo", "memory add", "memory list", "memory show", "memory search",
)  # fmt: skip
"""Commands that may need Prefect, whose import takes two seconds, and short ones that spend most of
their time on imports. `memory edit` is none: an editor needs the session of its terminal."""


def main() -> None:
    """Execute the command in a fork of a process that has imported it; without one, here."""
    _prepare_streams()
    env = dict(os.environ)
    # Libraries read --debug during their import.
    may_fork = "--debug" not in sys.argv and any(
        " ".join(sys.argv[1:end]) in FORKED for end in (2, 3)
    )
    if not may_fork:
        execute_here()
        return
    execute_forked(sys.argv[1:])
    from flows.host.fork_server import fast_exit

    with fast_exit():
        try:
            execute_here()
        finally:
            if "prefect" in sys.modules:  # the next command would import it again
                start_server("app.forked", env)


def execute_here() -> None:
    """Import the command line and run it.

    A Ctrl-C during the import ends the process by the signal and without a traceback, as with
    any shell command. If the parent ignores Ctrl-C (`nohup`, background jobs), it stays ignored.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _prepare_streams() -> None:
    """Open closed standard streams on /dev/null, and accept text that their encoding lacks."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # After `<&-` the next file that this process opens would get the number of the stream.
        if vars(sys)[name] is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
        stream: object = vars(sys)[name]
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if number else "surrogateescape")
