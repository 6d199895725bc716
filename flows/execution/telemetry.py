"""A run as OpenTelemetry sees it: spans for the run, its nodes, commands and model calls.

Off unless `telemetry.endpoint` is set. Nothing that was said or printed is in a span: names,
ids, numbers and exit codes only. A collector that is away fails no run.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from blueprints.engine import Perform
from contracts.run import NodeResult, RunReport
from contracts.sandbox import SnapshotId
from flows.config.settings import TelemetrySettings
from flows.execution.dependencies import Opened, Workshop
from flows.execution.spans import spanning
from flows.execution.traced_sandbox import TracedSandbox
from flows.runs.model_calls import model_calls
from flows.runs.request import RunRequest
from nodes.types import Node
from sandbox.egress import OnEvent

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

FLUSH_TIMEOUT_MS = 5_000

OpenSandbox = Callable[
    [RunRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[Opened]
]


class Trace(Protocol):
    """What is told of one run."""

    def perform(self, perform: Perform) -> Perform: ...

    def workshop(self, tools: Workshop) -> Workshop: ...

    def ended(self, report: RunReport, trajectory: Path) -> None: ...


class _Silent:
    """Tells nothing and changes nothing."""

    def perform(self, perform: Perform) -> Perform:
        return perform

    def workshop(self, tools: Workshop) -> Workshop:
        return tools

    def ended(self, report: RunReport, trajectory: Path) -> None:
        pass


@contextmanager
def traced(settings: TelemetrySettings, request: RunRequest, run_id: str) -> Iterator[Trace]:
    """The trace of the run that is done in the block; sent when the block ends."""
    if settings.endpoint is None:
        yield _Silent()
        return
    from flows.execution.otlp import exporting

    about: dict[str, str] = {
        "harness.run_id": run_id,
        "harness.blueprint": request.blueprint.name,
        "harness.agent": request.agent,
        "harness.model": request.model,
    }
    name = f"run {request.blueprint.name}"
    with (
        exporting(settings.endpoint, settings.service, FLUSH_TIMEOUT_MS) as (tracer, counted),
        spanning(tracer, name, about) as span,
    ):
        yield _Told(tracer, span, counted)


class _Told:
    def __init__(
        self, tracer: "Tracer", span: "Span", counted: Callable[[RunReport], None]
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._counted = counted

    def perform(self, perform: Perform) -> Perform:
        def told(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            with spanning(self._tracer, f"node {node.name}") as span:
                result = perform(node, execute)
                span.set_attribute("harness.status", result.status)
                return result

        return told

    def workshop(self, tools: Workshop) -> Workshop:
        @contextmanager
        def open_sandbox(
            request: RunRequest, run_id: str, on_event: OnEvent, files: SnapshotId | None
        ) -> Iterator[Opened]:
            with tools.open_sandbox(request, run_id, on_event, files) as opened:
                yield Opened(TracedSandbox(opened.sandbox, self._tracer), opened.env)

        return replace(tools, open_sandbox=open_sandbox)

    def ended(self, report: RunReport, trajectory: Path) -> None:
        """The gateway asked the models; what it wrote down becomes their spans."""
        self._span.set_attribute("harness.status", report.status)
        self._counted(report)
        for call in model_calls(trajectory):
            span = self._tracer.start_span(
                f"model {call.model}", start_time=call.start_ns, attributes=call.attributes
            )
            span.end(call.end_ns)
