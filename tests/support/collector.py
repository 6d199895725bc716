"""Shared by the tests of collector."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from flows.execution import telemetry
from tests.support.waiting import LONG_S


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
