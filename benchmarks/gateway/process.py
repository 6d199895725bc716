"""A gateway that allows everything: `python -m benchmarks.gateway.process`."""

from contracts.model_access import TokenSpec
from contracts.tool import Allowed, Guard
from providers.gateway import gateway_app, serve
from providers.open_runs import OpenRuns

SECRET = "benchmark"  # noqa: S105 - guards nothing


def _allow_all(_: str, __: TokenSpec) -> Guard:
    return lambda _: Allowed()


def _anything(_: str) -> None:
    pass


if __name__ == "__main__":
    ledger = OpenRuns(make_guard=_allow_all, redact=lambda text: text)
    app = gateway_app(ledger, secret=SECRET, check_model=_anything)
    serve(app, "127.0.0.1:0", ready=lambda url: print(url, flush=True))
