"""Sends spans and figures to an OpenTelemetry collector by OTLP over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from contracts.run import RunReport


class Exporting(NamedTuple):
    """Makes spans, and counts a run that has ended."""

    tracer: Tracer
    counted: Callable[[RunReport], None]


@contextmanager
def exporting(endpoint: str, service: str, flush_timeout_ms: int) -> Iterator[Exporting]:
    """Providers of this run alone; what is left is sent when the block ends, or given up."""
    resource = Resource.create({"service.name": service, "service.version": version("harness")})
    timeout_s = flush_timeout_ms / 1000
    spans = TracerProvider(resource=resource, shutdown_on_exit=False)
    spans.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=timeout_s))
    )
    sent = OTLPMetricExporter(f"{endpoint}/v1/metrics", timeout=timeout_s)
    reader = PeriodicExportingMetricReader(sent, export_interval_millis=60_000)
    meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    try:
        yield Exporting(spans.get_tracer("harness"), _counting(meters))
    finally:
        spans.shutdown()
        meters.shutdown(timeout_millis=flush_timeout_ms)


def _counting(meters: MeterProvider) -> Callable[[RunReport], None]:
    meter = meters.get_meter("harness")
    runs = meter.create_counter("harness.runs", description="Runs that ended")
    tokens = meter.create_counter("harness.tokens", description="Tokens that models counted")
    cost = meter.create_counter("harness.cost", unit="USD", description="What models cost")
    took = meter.create_histogram("harness.run.duration", unit="s")

    def counted(report: RunReport) -> None:
        about = {"blueprint": report.blueprint, "status": report.status, "model": report.model}
        runs.add(1, about)
        took.record(report.total_duration_ms / 1000, about)
        cost.add(report.cost_usd, about)
        for kind in ("input", "output", "cache_read", "cache_write"):
            tokens.add(getattr(report.token_usage, kind), {**about, "kind": kind})

    return counted
