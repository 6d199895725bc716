"""A gateway in a thread of the test, on a free port, with the guard that runs have."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import uvicorn

from flows.host.gateway_process import guard_for_terms
from policy.plan.approvals import Approvals
from providers.client import Gateway, OnWait
from providers.gateway import gateway_app
from providers.models import check_model
from providers.open_runs import OpenRuns
from providers.serve import listen, url_of, uvicorn_config

SECRET = "only-for-the-host"


@contextmanager
def running_gateway(
    place: str = "127.0.0.1:0",
    *,
    environ: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
    approvals: Callable[[], Approvals] | None = None,
    watch_loading: Callable[[], OnWait] = lambda: lambda: None,
) -> Iterator[Gateway]:
    ledger = OpenRuns(
        make_guard=partial(guard_for_terms, approvals=approvals),
        redact=lambda text: text.replace("hunter2", "***"),
        pause=pause,
    )
    known = dict(environ or {})
    app = gateway_app(ledger, secret=SECRET, check_model=lambda model: check_model(model, known))
    with listen(place) as listening:
        server = uvicorn.Server(uvicorn_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        client = Gateway(url_of(listening), SECRET, watch_loading=watch_loading)
        try:
            yield client
        finally:
            client.close()
            server.should_exit = True
            thread.join()
