"""OpenTelemetry spans for a run, its nodes, commands and model calls.

Off unless `telemetry.endpoint` is set. Spans contain names, ids, numbers and exit codes, never
prompts, replies or output. An unreachable collector fails no run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Self

from blueprints.engine import WrapNode
from contracts.run import NodeResult, RunReport
from contracts.sandbox import (
    DEFAULT_FILE_LIMIT,
    Command,
    Connect,
    ExecResult,
    FileContent,
    OnOutput,
    PersistentSandbox,
    SnapshotId,
)
from flows.config.settings import TelemetrySettings
from flows.execution.dependencies import OpenedSandbox, RunDependencies
from flows.runs.report import trajectory_events
from flows.runs.request import ResolvedRequest
from nodes.types import Node
from sandbox.egress import OnEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer

FLUSH_TIMEOUT_MS = 5_000


class RunTrace:
    """Reports one run to telemetry; without a tracer it reports nothing."""

    def __init__(
        self,
        tracer: "Tracer | None" = None,
        span: "Span | None" = None,
        count: Callable[[RunReport], None] = lambda _: None,
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._count = count

    def perform(self, perform: WrapNode) -> WrapNode:
        """Return `perform` with a span for each node."""
        tracer = self._tracer
        if tracer is None:
            return perform

        def traced(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            with traced_span(tracer, f"node {node.name}") as span:
                result = perform(node, execute)
                span.set_attribute("harness.status", result.status)
                return result

        return traced

    def dependencies(self, dependencies: RunDependencies) -> RunDependencies:
        """Return the dependencies with a span for each command in the sandbox."""
        tracer = self._tracer
        if tracer is None:
            return dependencies

        @contextmanager
        def open_sandbox(
            request: ResolvedRequest, run_id: str, on_event: OnEvent, files: SnapshotId | None
        ) -> Iterator[OpenedSandbox]:
            with dependencies.open_sandbox(request, run_id, on_event, files) as opened:
                yield OpenedSandbox(TracedSandbox(opened.sandbox, tracer), opened.env)

        return replace(dependencies, open_sandbox=open_sandbox)

    def ended(self, report: RunReport, trajectory: Path) -> None:
        """Make spans of the model calls in the trajectory, and count the run."""
        if self._tracer is None or self._span is None:
            return
        self._span.set_attribute("harness.status", report.status)
        self._count(report)
        for event in trajectory_events(trajectory, "reply"):
            with suppress(ValueError, KeyError, TypeError):  # a line that cannot be read
                _model_span(self._tracer, event)


@contextmanager
def trace_run(
    settings: TelemetrySettings, request: ResolvedRequest, run_id: str
) -> Iterator[RunTrace]:
    """Yield the trace of the run in the block. It is sent when the block ends."""
    if settings.endpoint is None:
        yield RunTrace()
        return
    about: dict[str, str] = {
        "harness.run_id": run_id,
        "harness.blueprint": request.definition.name,
        "harness.agent": request.agent,
        "harness.model": request.model,
    }
    name = f"run {request.definition.name}"
    with (
        _exporting(settings.endpoint, settings.service) as (tracer, count),
        traced_span(tracer, name, about) as span,
    ):
        yield RunTrace(tracer, span, count)


def _model_span(tracer: "Tracer", event: Mapping[str, object]) -> None:
    usage = event["usage"]
    tokens = usage if isinstance(usage, Mapping) else {}
    end_ns = int(datetime.fromisoformat(str(event["time"])).timestamp() * 1e9)
    took_ns = int(str(event.get("latency_ms") or 0)) * 1_000_000
    model = str(event.get("model") or "")
    attributes: dict[str, str | int | float] = {
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": int(tokens.get("input", 0)),
        "gen_ai.usage.output_tokens": int(tokens.get("output", 0)),
        "harness.node": str(event.get("node") or ""),
        "harness.cost_usd": float(tokens.get("cost_usd", 0.0)),
    }
    span = tracer.start_span(f"model {model}", start_time=end_ns - took_ns, attributes=attributes)
    span.end(end_ns)


@contextmanager
def _exporting(
    endpoint: str, service: str
) -> "Iterator[tuple[Tracer, Callable[[RunReport], None]]]":
    """Export spans and metrics by OTLP over HTTP, at the latest when the block ends.

    Data that the collector does not accept within `FLUSH_TIMEOUT_MS` is dropped.
    """
    # Importing OpenTelemetry takes 0.2 s, and telemetry is off by default.
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": service, "service.version": version("harness")})
    timeout_s = FLUSH_TIMEOUT_MS / 1000
    spans = TracerProvider(resource=resource, shutdown_on_exit=False)
    spans.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=timeout_s))
    )
    sent = OTLPMetricExporter(f"{endpoint}/v1/metrics", timeout=timeout_s)
    reader = PeriodicExportingMetricReader(sent, export_interval_millis=60_000)
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    try:
        yield spans.get_tracer("harness"), _counting(meters)
    finally:
        spans.shutdown()
        meters.shutdown(timeout_millis=FLUSH_TIMEOUT_MS)


def _counting(meters: "MeterProvider") -> Callable[[RunReport], None]:
    meter = meters.get_meter("harness")
    runs = meter.create_counter("harness.runs", description="Runs that ended")
    tokens = meter.create_counter("harness.tokens", description="Tokens that models counted")
    cost = meter.create_counter("harness.cost", unit="USD", description="What models cost")
    took = meter.create_histogram("harness.run.duration", unit="s")

    def count(report: RunReport) -> None:
        about = {"blueprint": report.blueprint, "status": report.status, "model": report.model}
        runs.add(1, about)
        took.record(report.total_duration_ms / 1000, about)
        cost.add(report.cost_usd, about)
        for kind in ("input", "output", "cache_read", "cache_write"):
            tokens.add(getattr(report.token_usage, kind), {**about, "kind": kind})

    return count


class TracedSandbox:
    """Wraps a sandbox. A span names the program, never its arguments, which may hold secrets."""

    def __init__(self, inner: PersistentSandbox, tracer: "Tracer") -> None:
        self._inner = inner
        self._tracer = tracer

    @property
    def work_dir(self) -> str:
        return self._inner.work_dir

    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        with traced_span(self._tracer, f"exec {command.argv[0]}") as span:
            result = self._inner.exec(command, on_output)
            span.set_attribute("process.exit.code", result.exit_code)
            span.set_attribute("harness.timed_out", result.timed_out)
            return result

    def read_file(self, path: str, limit: int = DEFAULT_FILE_LIMIT) -> bytes:
        return self._inner.read_file(path, limit)

    def write_file(self, path: str, content: FileContent) -> None:
        self._inner.write_file(path, content)

    def upload_files(self, files: Mapping[str, FileContent]) -> None:
        self._inner.upload_files(files)

    def forward(self, port: int, connect: Connect) -> int:
        return self._inner.forward(port, connect)

    def snapshot(self) -> SnapshotId:
        return self._inner.snapshot()

    def restore(self, snapshot: SnapshotId) -> None:
        self._inner.restore(snapshot)

    def now(self) -> float:
        return self._inner.now()

    def changed_since(self, moment: float) -> bool:
        return self._inner.changed_since(moment)

    def checkpoint(self, ttl_s: float, *, name: str = "") -> SnapshotId:
        return self._inner.checkpoint(ttl_s, name=name)

    def fork(self, snapshot: SnapshotId) -> Self:
        return type(self)(self._inner.fork(snapshot), self._tracer)

    def teardown(self) -> None:
        self._inner.teardown()


@contextmanager
def traced_span(
    tracer: "Tracer", name: str, attributes: Mapping[str, str] | None = None
) -> Iterator["Span"]:
    """Record a span for the block. Of an exception it records only the class."""
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:  # recorded and raised again, Ctrl-C too
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            raise
