"""`GET /metrics`: the runs of this machine as Prometheus counters and gauges.

The values are counted from the reports in the folder of runs, so a restart loses none.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from contracts.chat import Usage
from flows.config.settings import load_settings
from flows.runs.report import loads
from flows.runs.runs import list_runs

Labels = tuple[str, ...]

NEWEST = 200
"""Number of runs, newest first, whose current state is counted."""

router = APIRouter()


@router.get("/metrics")
def metrics() -> Response:
    """Return the metrics in Prometheus text format."""
    return Response(
        generate_latest(_registry(load_settings().runs)), media_type=CONTENT_TYPE_PLAIN_0_0_4
    )


@cache
def _registry(folder: Path) -> CollectorRegistry:
    """Return the registry of this process; a new one would reset the counters."""
    registry = CollectorRegistry()
    registry.register(RunMetrics(folder))
    return registry


class _Spent(NamedTuple):
    """Values of a run's report when it was last read."""

    written_ns: int = 0
    seconds: int = 0
    cost_usd: float = 0.0
    usage: Usage = Usage()


class RunMetrics(Collector):
    """Counters of the reports in a folder; an unchanged report is not read again.

    A run that is resumed ends again, and counts again with the difference of its usage.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._known: dict[Path, _Spent] = {}
        self._runs: Counter[Labels] = Counter()
        self._seconds: Counter[Labels] = Counter()
        self._cost: Counter[Labels] = Counter()
        self._tokens: Counter[Labels] = Counter()

    def collect(self) -> Iterable[Metric]:
        """Count new and changed reports, and return all metrics."""
        with self._lock:  # two scrapes at once would count a new report twice
            for path in self._folder.glob("*/report.json"):
                with suppress(
                    OSError, ValueError
                ):  # the run is being resumed, or the file is damaged
                    self._add(path)
            run, model = ("blueprint", "status"), ("model",)
            return [
                _counter("harness_runs", "Runs that ended", run, self._runs),
                _counter("harness_run_seconds", "Total seconds of these runs", run, self._seconds),
                _counter("harness_cost_usd", "US dollars spent on models", model, self._cost),
                _counter("harness_tokens", "Tokens used", ("model", "kind"), self._tokens),
                self._current_states(),
            ]

    def _add(self, path: Path) -> None:
        before, written = self._known.get(path, _Spent()), path.stat().st_mtime_ns
        if written == before.written_ns:
            return
        report = loads(path.read_text())
        if report.status == "waiting":  # the run has not ended
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

    def _current_states(self) -> Metric:
        states = Counter(entry.state for entry in list_runs(self._folder, limit=NEWEST))
        gauge = GaugeMetricFamily(
            "harness_runs_now", "Runs by their current state", labels=["state"]
        )
        for state in ("queued", "running", "lost", "waiting"):
            gauge.add_metric([state], states[state])
        return gauge


def _counter(name: str, about: str, labels: Labels, counts: Counter[Labels]) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for values, number in sorted(counts.items()):
        family.add_metric(values, number)
    return family
