"""A run as a collector on loopback sees it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blueprints.dsl import agentic, blueprint, deterministic
from blueprints.engine import call
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from flows.config.settings import TelemetrySettings
from flows.execution import telemetry
from flows.execution.dependencies import Workshop
from flows.execution.engine import run_blueprint
from flows.execution.telemetry import traced
from flows.runs.request import ResolvedRequest
from nodes.commands import shell
from nodes.types import Node
from tests.flows.conftest import DONE
from tests.waiting import LONG_S

Ask = Callable[..., ResolvedRequest]


class Collector(NamedTuple):
    """What was sent to it, by path."""

    url: str
    sent: dict[str, list[bytes]]

    def spans(self) -> dict[str, dict[str, object]]:
        found = {}
        for body in self.sent.get("/v1/traces", []):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found[span.name] = {"id": span.span_id, "parent": span.parent_span_id}
        return found

    def metrics(self) -> set[str]:
        return {
            metric.name
            for body in self.sent.get("/v1/metrics", [])
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def listening() -> Iterator[Collector]:
    sent: dict[str, list[bytes]] = {}

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            sent.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with (
        pytest.MonkeyPatch.context() as patch,
        ThreadingHTTPServer(("127.0.0.1", 0), Takes) as server,
    ):
        patch.setattr(telemetry, "FLUSH_TIMEOUT_MS", round(1000 * LONG_S))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Collector(f"http://127.0.0.1:{server.server_port}", sent)
        server.shutdown()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening() as there:
        yield there


def run_traced(shop: Workshop, request: ResolvedRequest, endpoint: str | None) -> str:
    with traced(TelemetrySettings(endpoint=endpoint), request, "abcd1234") as trace:
        tools = trace.workshop(shop)
        report = run_blueprint(request, tools, run_id="abcd1234", perform=trace.perform(call))
        trace.ended(report, shop.runs / "abcd1234" / "trajectory.jsonl")
    return report.status


def test_run_nodes_commands_and_model_calls_are_spans_of_one_tree(
    shop: Workshop, ask: Ask, model: Callable[..., str], collector: Collector
) -> None:
    nodes: list[Node] = [
        deterministic("say", "say it", shell("echo s3cret-words")),
        agentic("think", "think", prompt=lambda _: "think of s3cret-words"),
    ]
    name = model(DONE)
    request = ask(blueprint("talks", "Talks", nodes), model=name)
    assert run_traced(shop, request, collector.url) == "success"
    spans = collector.spans()
    assert {"run talks", "node say", "node think", f"model {name}"} <= set(spans)
    assert spans["node say"]["parent"] == spans["run talks"]["id"]
    assert any(
        one["parent"] == spans["node say"]["id"]
        for span, one in spans.items()
        if span.startswith("exec ")
    )
    assert {"harness.runs", "harness.run.duration", "harness.tokens"} <= collector.metrics()
    assert b"s3cret-words" not in b"".join(b for all_ in collector.sent.values() for b in all_)


def test_of_what_a_node_raises_only_the_class_is_told(
    shop: Workshop, ask: Ask, collector: Collector
) -> None:
    def leaks(_: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.exec(Command(argv=("true",)), lambda *_: None)
        raise RuntimeError("POST https://api.example.org/?token=s3cret-words")

    request = ask(blueprint("leaks", "Leaks", [deterministic("leak", "leak", leaks)]))
    with pytest.raises(RuntimeError):
        run_traced(shop, request, collector.url)
    sent = b"".join(body for bodies in collector.sent.values() for body in bodies)
    assert b"RuntimeError" in sent
    assert b"s3cret-words" not in sent
    assert b"test_telemetry.py" not in sent


def test_a_collector_that_is_away_fails_no_run(shop: Workshop, ask: Ask) -> None:
    request = ask(blueprint("talks", "Talks", [deterministic("say", "say it", shell("true"))]))
    assert run_traced(shop, request, "http://127.0.0.1:9") == "success"


def test_without_an_endpoint_nothing_is_wrapped(shop: Workshop, ask: Ask) -> None:
    request = ask(blueprint("talks", "Talks", [deterministic("say", "say it", shell("true"))]))
    with traced(TelemetrySettings(), request, "abcd1234") as trace:
        assert trace.workshop(shop) is shop
