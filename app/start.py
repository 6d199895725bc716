"""Where the command `harness` begins: before what takes a fifth of a second to import."""

import signal


def main() -> None:
    """Import the command line and run it.

    A Ctrl-C while it is imported finds nothing begun: the process ends by the signal, as a
    shell's own commands do, without a traceback. Who starts us with Ctrl-C ignored (`nohup`, a
    job in the background) is obeyed.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from app.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
