"""Output of the commands: results on stdout, messages on stderr."""

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import NamedTuple

from contracts.errors import Unavailable
from contracts.run import NodeReport, RunReport


class _JsonDocument(NamedTuple):
    stdout_fd: int
    """Copy of the original stdout."""
    written: bool = False


_JSON_DOCUMENT: ContextVar[_JsonDocument | None] = ContextVar("json_document", default=None)
"""Where `print_json` writes inside `json_only_stdout`; None outside of it."""


def print_message(line: str) -> None:
    """Print one line for the user on stderr."""
    sys.stderr.write(f"{line}\n")


def print_line(text: str) -> None:
    """Print a result on stdout and flush it, since a program may be waiting for the line.

    Raises:
        Unavailable: stdout cannot be written, for example because the disk is full.
        BrokenPipeError: the reader of stdout has closed it.
    """
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python flushes stdout once more at exit and would print a second error.
        with open(os.devnull, "w") as devnull:  # noqa: PTH123 - a device, not a file of ours
            os.dup2(devnull.fileno(), sys.stdout.fileno())
        raise Unavailable(f"cannot write to stdout: {error.strerror}") from error


def print_bytes(content: bytes) -> None:
    """Print the bytes of a result on stdout unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()


def print_json(document: object) -> None:
    """Print the one JSON document of `--json` on stdout."""
    text = json.dumps(document, indent=2, default=str)
    target = _JSON_DOCUMENT.get()
    if target is None:
        print_line(text)
        return
    _JSON_DOCUMENT.set(target._replace(written=True))
    try:
        with os.fdopen(os.dup(target.stdout_fd), "w") as stdout:
            stdout.write(f"{text}\n")
    except OSError as error:  # the command itself has succeeded
        print_message(f"note: the JSON document could not be written to stdout: {error.strerror}")


def print_result(document: object, line: str, as_json: bool) -> None:
    """Print the document with `--json`, otherwise the line."""
    if as_json:
        print_json(document)
    else:
        print_line(line)


def json_missing() -> bool:
    """Return True inside `json_only_stdout` until a document has been printed."""
    target = _JSON_DOCUMENT.get()
    return target is not None and not target.written


@contextmanager
def json_only_stdout() -> Iterator[None]:
    """Reserve stdout for `print_json` until the block ends; other output goes to stderr.

    This includes the output of blueprints and of programs that they start on this machine.
    """
    sys.stdout.flush()
    stdout_fd = os.dup(1)
    token = _JSON_DOCUMENT.set(_JsonDocument(stdout_fd))
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout_fd, 1)
        _JSON_DOCUMENT.reset(token)
        os.close(stdout_fd)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, each as wide as its widest cell."""
    cells = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_line("  ".join(padded).rstrip())


def print_report(report: RunReport) -> None:
    """Print the report of a run in a few lines."""
    from flows.runs.report import models_line

    seconds = report.total_duration_ms / 1000
    print_line(f"{report.blueprint} {report.run_id}: {report.status} in {seconds:.1f} s")
    for node in report.nodes:
        print_line(f"  {_node_line(node)}")
    if report.error:
        print_line(f"error: {report.error}")
    for notice in report.notices:
        print_line(f"note: {notice}")
    for output in report.outputs:
        print_line(f"output {output.node}: {output}")
    if report.branch:
        print_line(f"branch: {report.branch}{' (pushed)' if report.pushed else ''}")
        print_line(f"changes: {report.diff_stat}")
        if report.pull_request:
            print_line(f"pull request: {report.pull_request}")
        if report.checks:
            print_line(f"checks: {report.checks}")
        print_line(f"diff: harness runs diff {report.run_id}")
    tokens = report.token_usage.total
    print_line(f"model: {models_line(report)}, {tokens} tokens, ${report.cost_usd:.4f}")
    if report.flow_run_url:
        print_line(f"in Prefect: {report.flow_run_url}")


def set_up_logging(*, debug: bool) -> None:
    """Show the log of libraries with `--debug` only, and warnings of memory as notes always."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.DEBUG if debug else logging.CRITICAL + 1)
    if not debug:
        logging.getLogger("memory").addHandler(_NOTES)
        # Prefect has a handler of its own and prints tracebacks when a server is unreachable.
        os.environ.setdefault("PREFECT_INTERNAL_LOGGING_LEVEL", "CRITICAL")
        logging.raiseExceptions = False  # Prefect prints every log record that it cannot send
    # Prefect installs no root handler if there is one.
    logging.basicConfig(handlers=[handler], level=logging.INFO if debug else logging.WARNING)


class _NoteHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_message(f"note: {record.getMessage()}")


_NOTES = _NoteHandler(logging.WARNING)


def _node_line(node: NodeReport) -> str:
    """Return one line such as `fix: success in 2.0 s, 3 turns (bash 2), 970 tokens, $0.0010`."""
    parts = [f"{node.name}: {node.status}"]
    if node.status != "skipped":
        parts[0] += f" in {node.duration_ms / 1000:.1f} s"
    if len(node.attempts) > 1:
        parts.append(f"{len(node.attempts)} attempts")
    if node.turns:
        from flows.runs.report import tools_line

        tools = f" ({tools_line(node)})" if node.tool_calls else ""
        parts.append(f"{node.turns} turns{tools}")
        parts += [f"{node.usage.total} tokens", f"${node.usage.cost_usd:.4f}"]
    if node.tests is not None:
        parts.append(f"tests: {node.tests}")
    return ", ".join((*parts, node.remark) if node.remark else parts)
