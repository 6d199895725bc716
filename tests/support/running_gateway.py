"""A gateway in a thread of the test, on a free port, with the guard that runs have."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import uvicorn

from flows.host.gateway_process import guard_for_terms
from policy.plan.approvals import Approvals
from providers.client import Gateway
from providers.gateway import gateway_app, listen, url_of, uvicorn_config
from providers.models import check_model
from providers.open_runs import OpenRuns

SECRET = "only-for-the-host"


@contextmanager
def running_gateway(
    *,
    environ: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    approvals: Callable[[], Approvals] | None = None,
) -> Iterator[Gateway]:
    open_runs = OpenRuns(
        make_guard=partial(guard_for_terms, approvals=approvals),
        redact=lambda text: text.replace("hunter2", "***"),
        sleep=sleep,
    )
    keys = dict(environ or {})
    app = gateway_app(open_runs, secret=SECRET, check_model=lambda m: check_model(m, keys))
    with listen("127.0.0.1:0") as listener:
        server = uvicorn.Server(uvicorn_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        client = Gateway(url_of(listener), SECRET)
        try:
            yield client
        finally:
            client.close()
            server.should_exit = True
            thread.join()
