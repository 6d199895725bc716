"""Writes a run's trajectory: requests, replies and decisions as JSONL, enough for a replay."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

from contracts.json import as_mapping, as_mappings
from contracts.tool import PLAYBOOK_TOOLS
from providers.openai_messages import content_text

Redact = Callable[[str], str]

_VARYING = re.compile(
    r"(?<!\d)\d+(\.\d+)?\s?(ms|s|seconds?)\b"  # without (?<!\d) a million digits take hours
    r"|0x[0-9a-fA-F]{6,}|\b(?:Chunk ID|PGID): [0-9a-f]+|\d\d:\d\d:\d\d\S*"  # of codex, qwen
)
_CHUNK = 1 << 20
"""Characters that one regular expression call searches: no other thread runs meanwhile."""


class Trajectory:
    """A file that events are appended to, one line each. Thread-safe.

    `redact` is applied to every text in an event, at any depth.
    """

    def __init__(self, path: Path, *, redact: Redact) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.redact = redact
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Drop all later events. May be called twice."""
        with self._lock:
            self._file.close()

    def write(self, kind: str, **fields: object) -> None:
        """Append one event and flush it to the operating system."""
        event = {"kind": kind, "time": datetime.now(UTC).isoformat(), **fields}
        line = json.dumps(_redacted(event, self.redact))
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")
                self._file.flush()


def stable_digest(text: str) -> str:
    """Return a short digest of a text without durations, addresses and times of day."""
    digest = hashlib.sha256()
    for start in range(0, len(text), _CHUNK):
        stable = _VARYING.sub("", text[start : start + _CHUNK])
        digest.update(stable.encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


def _redacted(value: object, redact: Redact) -> object:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {key: _redacted(part, redact) for key, part in value.items()}
        case list() | tuple():
            return [_redacted(part, redact) for part in value]
        case _:
            return value


TrajectoryEvent = Mapping[str, object]

_NO_EVENT: TrajectoryEvent = {}


@dataclass(frozen=True)
class TrajectoryDifference:
    """The first step, counted from 1, at which two trajectories differ."""

    step: int
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"step {self.step} differs: was {self.expected!r}, is {self.actual!r}"


def read_trajectory(path: Path) -> Iterator[TrajectoryEvent]:
    """Yield the events in order, without damaged or incomplete lines.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            event = parse_event(line)
            if event is not None:
                yield event


def parse_event(line: str | bytes) -> TrajectoryEvent | None:
    """Return the event of a line; None if it is incomplete because the writer was killed."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def event_line(event: TrajectoryEvent) -> str:
    """Return an event as a line such as `fix · reply · bash pytest -q · 900 + 20 tokens`."""
    kind = str(event.get("kind", "nothing"))
    fields = " · ".join(filter(None, (str(event.get("node", "")), kind, *_details(event))))
    return " ".join(fields.split())


def first_difference(old: Path, new: Path) -> TrajectoryDifference | None:
    """Return the first step at which a replay differs from the original, or None.

    Steps are replies, complete or not, decisions, tool results, and a last request without an
    answer. Results are compared by digests without durations. Results of tools on the host are not
    compared: memory may have changed since, and a replay calls no MCP server.
    """
    pairs = zip_longest(_steps(old), _steps(new), fillvalue=_NO_EVENT)
    for step, (expected, actual) in enumerate(pairs, start=1):
        if _compared_fields(expected) != _compared_fields(actual):
            return TrajectoryDifference(step, event_line(expected), event_line(actual))
    return None


def _steps(path: Path) -> Iterator[TrajectoryEvent]:
    last: TrajectoryEvent = _NO_EVENT
    host_calls: set[object] = set()
    for last in read_trajectory(path):
        host_calls |= set(_host_calls(last))
        if last.get("kind") == "result" and last.get("call") in host_calls:
            continue
        if last.get("kind") in ("reply", "decision", "result") or _has_partial_answer(last):
            yield last
    if last.get("kind") in ("request", "broken") and not _has_partial_answer(last):
        yield {**last, "kind": "unanswered"}


def _has_partial_answer(event: TrajectoryEvent) -> bool:
    return event.get("kind") == "broken" and "message" in event


def _host_calls(event: TrajectoryEvent) -> Iterator[object]:
    """Yield ids of calls of playbook tools, and of `SERVER__TOOL` of an MCP server, in a reply.

    Some agents put a prefix before the name.
    """
    for call in as_mappings(as_mapping(event.get("message")).get("tool_calls")):
        name = str(as_mapping(call.get("function")).get("name"))
        if name.endswith(PLAYBOOK_TOOLS) or "__" in name:
            yield call.get("id")


def _compared_fields(event: TrajectoryEvent) -> tuple[object, ...]:
    names = ("kind", "node", "message", "tool", "verdict", "digest")
    return tuple(event.get(name) for name in names)


def _details(event: TrajectoryEvent) -> Iterator[str]:
    match event.get("kind"):
        case "request":
            for message in as_mappings(event.get("messages")):
                yield f"{message.get('role')}: {content_text(message.get('content'))[:200]}"
        case "reply":
            yield from _message_details(as_mapping(event.get("message")))
            usage = as_mapping(event.get("usage"))
            yield f"{usage.get('input')} + {usage.get('output')} tokens"
            yield f"{event.get('latency_ms')} ms"
        case "decision":
            yield f"{event.get('tool')} {event.get('verdict')}"
            yield str(event.get("reason") or "")
        case "result":
            yield str(event.get("text"))[:200]
        case "broken" | "unanswered" | "fallback":
            yield from _message_details(as_mapping(event.get("message")))
            yield str(event.get("why") or "")


def _message_details(message: TrajectoryEvent) -> Iterator[str]:
    yield content_text(message.get("content"))[:200]
    for call in as_mappings(message.get("tool_calls")):
        function = as_mapping(call.get("function"))
        yield f"{function.get('name')} {str(function.get('arguments'))[:200]}"
