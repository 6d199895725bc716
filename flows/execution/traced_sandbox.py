"""A sandbox whose commands are OpenTelemetry spans."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from contracts.sandbox import (
    DEFAULT_FILE_LIMIT,
    Command,
    Connect,
    ExecResult,
    OnOutput,
    PersistentSandbox,
    SnapshotId,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


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

    def write_file(self, path: str, data: bytes) -> None:
        self._inner.write_file(path, data)

    def upload_files(self, files: Mapping[str, bytes]) -> None:
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

    def checkpoint(self, ttl_s: float) -> SnapshotId:
        return self._inner.checkpoint(ttl_s)

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
