"""The gateway of a run: a process that holds the provider's key and ends with the run.

It is told a secret on standard input and says its address on standard output; when standard
input ends, because the run is over or was killed, it ends too.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import ModelUnavailable
from contracts.gate import Terms
from contracts.tool import Guard
from flows.settings import environment
from nodes.agents.allowed import guard_for
from nodes.text import redactor
from providers.client import Gateway


@contextmanager
def running_gateway() -> Iterator[Gateway]:
    """A gateway of our own, gone when the block ends.

    Raises:
        ModelUnavailable: it does not start.
    """
    secret = secrets.token_hex(32)
    with subprocess.Popen(
        [sys.executable, "-m", "flows.gateway"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        gateway = Gateway(_address(process, secret), secret)
        try:
            yield gateway
        finally:
            gateway.close()
            process.kill()


def _address(process: "subprocess.Popen[str]", secret: str) -> str:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise ModelUnavailable("the gateway was started without pipes")
    stdin.write(f"{secret}\n")
    stdin.flush()
    address = stdout.readline().strip()
    if not address:
        raise ModelUnavailable("the gateway to the model did not start: --debug shows why")
    return address


def _guard(_: str, terms: Terms) -> Guard:
    return guard_for(terms.allowed_tools, terms.agent)


def main() -> None:
    """Serve until standard input ends."""
    from providers.gateway import gateway
    from providers.ledger import Ledger
    from providers.models import check_model
    from providers.serve import serve

    secret = sys.stdin.readline().strip()
    threading.Thread(target=_end_with_input, daemon=True).start()
    ledger = Ledger(make_guard=_guard, redact=redactor(environment()))
    app = gateway(ledger, secret=secret, check_model=lambda m: check_model(m, environment()))
    serve(app, "127.0.0.1:0", ready=_say)


def _end_with_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _say(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
