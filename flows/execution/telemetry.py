"""OpenTelemetry spans for a run, its nodes, commands and model calls.

Off unless `telemetry.endpoint` is set. Spans contain names, ids, numbers and exit codes, never
prompts, replies or output. An unreachable collector fails no run.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from blueprints.engine import WrapNode
from contracts.run import NodeResult, RunReport
from contracts.sandbox import SnapshotId
from flows.config.settings import TelemetrySettings
from flows.execution.dependencies import OpenedSandbox, RunDependencies
from flows.execution.traced_sandbox import TracedSandbox, traced_span
from flows.runs.model_calls import model_calls
from flows.runs.request import ResolvedRequest
from nodes.types import Node
from sandbox.egress import OnEvent

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer

FLUSH_TIMEOUT_MS = 5_000

OpenSandbox = Callable[
    [ResolvedRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[OpenedSandbox]
]


class RunTrace(Protocol):
    """Reports one run to telemetry."""

    def perform(self, perform: WrapNode) -> WrapNode: ...

    def dependencies(self, dependencies: RunDependencies) -> RunDependencies: ...

    def ended(self, report: RunReport, trajectory: Path) -> None: ...


class _Silent:
    """Telemetry that is switched off."""

    def perform(self, perform: WrapNode) -> WrapNode:
        return perform

    def dependencies(self, dependencies: RunDependencies) -> RunDependencies:
        return dependencies

    def ended(self, report: RunReport, trajectory: Path) -> None:
        pass


@contextmanager
def trace_run(
    settings: TelemetrySettings, request: ResolvedRequest, run_id: str
) -> Iterator[RunTrace]:
    """Yield the trace of the run in the block. It is sent when the block ends."""
    if settings.endpoint is None:
        yield _Silent()
        return
    about: dict[str, str] = {
        "harness.run_id": run_id,
        "harness.blueprint": request.definition.name,
        "harness.agent": request.agent,
        "harness.model": request.model,
    }
    name = f"run {request.definition.name}"
    with (
        _exporting(settings.endpoint, settings.service) as (tracer, counted),
        traced_span(tracer, name, about) as span,
    ):
        yield _Told(tracer, span, counted)


class _Told:
    def __init__(
        self, tracer: "Tracer", span: "Span", counted: Callable[[RunReport], None]
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._counted = counted

    def perform(self, perform: WrapNode) -> WrapNode:
        def told(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            with traced_span(self._tracer, f"node {node.name}") as span:
                result = perform(node, execute)
                span.set_attribute("harness.status", result.status)
                return result

        return told

    def dependencies(self, dependencies: RunDependencies) -> RunDependencies:
        @contextmanager
        def open_sandbox(
            request: ResolvedRequest, run_id: str, on_event: OnEvent, files: SnapshotId | None
        ) -> Iterator[OpenedSandbox]:
            with dependencies.open_sandbox(request, run_id, on_event, files) as opened:
                yield OpenedSandbox(TracedSandbox(opened.sandbox, self._tracer), opened.env)

        return replace(dependencies, open_sandbox=open_sandbox)

    def ended(self, report: RunReport, trajectory: Path) -> None:
        """Make spans of the model calls in the trajectory, and count the run."""
        self._span.set_attribute("harness.status", report.status)
        self._counted(report)
        for call in model_calls(trajectory):
            span = self._tracer.start_span(
                f"model {call.model}", start_time=call.start_ns, attributes=call.attributes
            )
            span.end(call.end_ns)


class _Exporter(NamedTuple):
    """Tracer and counter; `on_ended` counts a finished run."""

    tracer: "Tracer"
    on_ended: Callable[[RunReport], None]


@contextmanager
def _exporting(endpoint: str, service: str) -> Iterator[_Exporter]:
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
        yield _Exporter(spans.get_tracer("harness"), _counting(meters))
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
