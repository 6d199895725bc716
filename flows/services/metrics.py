"""The figures of this machine's runs for Prometheus, as a process that `harness up` keeps.

They are counted from the reports in the folder of runs, so a restart loses none.
"""

import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contracts.chat import Usage
from flows.config.environment import environment
from flows.config.settings import Settings, load_settings
from flows.runs.report import loads
from flows.runs.runs import list_runs
from flows.services import daemon
from flows.services.daemon import Kept, Launch
from flows.services.fingerprint import code
from flows.services.health import answers

Labels = tuple[str, ...]

NEWEST = 200
"""Runs that are looked at for whether they are still going on."""


def metrics(settings: Settings) -> Kept:
    """The exporter, as it is kept; another free port is taken where its own is in use."""

    def launch() -> Launch:
        port = daemon.free_port(settings.metrics_port)
        argv = (sys.executable, "-P", "-m", "flows.services.metrics", str(port))
        env = {**environment(), "HARNESS_HOME": str(settings.home)}
        return Launch(argv, env, f"http://127.0.0.1:{port}/metrics")

    return Kept(
        name="metrics",
        title="the exporter of figures",
        folder=settings.home / "metrics",
        launch=launch,
        healthy=answers,
        version=lambda: f"{settings.metrics_port} {code()}",
    )


class _Spent(NamedTuple):
    """What a run's report told when it was looked at last."""

    written_ns: int = 0
    seconds: int = 0
    cost_usd: float = 0.0
    usage: Usage = Usage()


class Runs(Collector):
    """Counts the reports below a folder; one that did not change is not read again.

    A run that goes on ends once more, and counts once more with what it spent since.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, _Spent] = {}
        self._runs: Counter[Labels] = Counter()
        self._seconds: Counter[Labels] = Counter()
        self._cost: Counter[Labels] = Counter()
        self._tokens: Counter[Labels] = Counter()

    def collect(self) -> Iterable[Metric]:
        """What there is now."""
        for path in self._folder.glob("*/report.json"):
            with suppress(OSError, ValueError):  # it goes on just now, or is no report
                self._look(path)
        run, model = ("blueprint", "status"), ("model",)
        yield from _counter("harness_runs", "Runs that ended", run, self._runs)
        yield from _counter("harness_run_seconds", "How long they took", run, self._seconds)
        yield from _counter("harness_cost_usd", "What models cost", model, self._cost)
        yield from _counter("harness_tokens", "Tokens used", ("model", "kind"), self._tokens)
        yield self._going_on()

    def _look(self, path: Path) -> None:
        before, written = self._known.get(path, _Spent()), path.stat().st_mtime_ns
        if written == before.written_ns:
            return
        report = loads(path.read_text())
        if report.status == "waiting":  # it did not end
            return
        seconds = round(report.total_duration_ms / 1000)
        self._known[path] = _Spent(written, seconds, report.cost_usd, report.token_usage)
        run, model = (report.blueprint, report.status), report.model
        self._runs[run] += 1
        self._seconds[run] += max(0, seconds - before.seconds)
        more = max(0.0, report.cost_usd - before.cost_usd)
        self._cost[(model,)] += more  # type: ignore[assignment]  # typed for int
        for kind in ("input", "output", "cache_read", "cache_write"):
            was, now = (getattr(one, kind) for one in (before.usage, report.token_usage))
            self._tokens[(model, kind)] += max(0, now - was)

    def _going_on(self) -> Metric:
        states = Counter(entry.state for entry in list_runs(self._folder, limit=NEWEST))
        now = GaugeMetricFamily("harness_runs_now", "Runs by what they are now", labels=["state"])
        for state in ("queued", "running", "lost", "waiting"):
            now.add_metric([state], states[state])
        return now


def _counter(
    name: str, about: str, labels: Labels, counts: Counter[Labels]
) -> Iterator[CounterMetricFamily]:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, number in sorted(counts.items()):
        family.add_metric(values, number)
    yield family


def main() -> None:
    """Serve on this machine until told to end."""
    registry = CollectorRegistry()
    registry.register(Runs(load_settings().runs))
    start_http_server(int(sys.argv[1]), addr="127.0.0.1", registry=registry)
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    stop.wait()


if __name__ == "__main__":
    main()
