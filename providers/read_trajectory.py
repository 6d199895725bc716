"""A trajectory read again: shown to people line by line, compared with another."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from contracts.json import as_mapping, as_mappings
from contracts.tool import PLAYBOOK_TOOLS
from providers.model_request import content_text

TrajectoryEvent = Mapping[str, object]

_NOTHING: TrajectoryEvent = {}


@dataclass(frozen=True)
class TrajectoryDifference:
    """Where two trajectories part: the step, counted from 1, and what each has there."""

    step: int
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"step {self.step} differs: was {self.expected!r}, is {self.actual!r}"


def read_trajectory(path: Path) -> Iterator[TrajectoryEvent]:
    """The events in order; a line that is damaged, or was cut short, is left out.

    Raises:
        FileNotFoundError: there is no trajectory.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            event = parse_event(line)
            if event is not None:
                yield event


def parse_event(line: str | bytes) -> TrajectoryEvent | None:
    """What one line says; None where whoever wrote was killed in the middle of it."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def event_line(event: TrajectoryEvent) -> str:
    """One event in one line, such as `fix · reply · bash pytest -q · 900 + 20 tokens`."""
    told = " · ".join(filter(None, (str(event.get("node", "")), _kind(event), *_details(event))))
    return " ".join(told.split())


def first_difference(old: Path, new: Path) -> TrajectoryDifference | None:
    """The first step at which a replay did something else, or None.

    A step is a reply, whole or broken off, a decision, a tool's result, or a last question that
    got no answer;
    results are compared by digests, which leave durations out. What memory answered is no
    step: it has moved on since.
    """
    pairs = zip_longest(_steps(old), _steps(new), fillvalue=_NOTHING)
    for step, (was, now) in enumerate(pairs, start=1):
        if _essence(was) != _essence(now):
            return TrajectoryDifference(step, event_line(was), event_line(now))
    return None


def _steps(path: Path) -> Iterator[TrajectoryEvent]:
    last: TrajectoryEvent = _NOTHING
    asked_memory: set[object] = set()
    for last in read_trajectory(path):
        asked_memory |= set(_memory_calls(last))
        if last.get("kind") == "result" and last.get("call") in asked_memory:
            continue
        if last.get("kind") in ("reply", "decision", "result") or _broke_off(last):
            yield last
    if last.get("kind") in ("request", "broken") and not _broke_off(last):
        yield {**last, "kind": "unanswered"}


def _broke_off(event: TrajectoryEvent) -> bool:
    """Whether this is an answer that began and did not end."""
    return event.get("kind") == "broken" and "message" in event


def _memory_calls(event: TrajectoryEvent) -> Iterator[object]:
    """Ids of the calls of playbook tools in a reply; some agents put more before the name."""
    for call in as_mappings(as_mapping(event.get("message")).get("tool_calls")):
        if str(as_mapping(call.get("function")).get("name")).endswith(PLAYBOOK_TOOLS):
            yield call.get("id")


def _essence(event: TrajectoryEvent) -> tuple[object, ...]:
    names = ("kind", "node", "message", "tool", "verdict", "digest")
    return tuple(event.get(name) for name in names)


def _kind(event: TrajectoryEvent) -> str:
    return str(event.get("kind", "nothing"))


def _details(event: TrajectoryEvent) -> Iterator[str]:
    match event.get("kind"):
        case "request":
            for message in as_mappings(event.get("messages")):
                yield f"{message.get('role')}: {content_text(message.get('content'))[:200]}"
        case "reply":
            yield from _said(as_mapping(event.get("message")))
            usage = as_mapping(event.get("usage"))
            yield f"{usage.get('input')} + {usage.get('output')} tokens"
            yield f"{event.get('latency_ms')} ms"
        case "decision":
            yield f"{event.get('tool')} {event.get('verdict')}"
            yield str(event.get("reason") or "")
        case "result":
            yield str(event.get("text"))[:200]
        case "broken" | "unanswered":
            yield from _said(as_mapping(event.get("message")))
            yield str(event.get("why") or "")


def _said(message: TrajectoryEvent) -> Iterator[str]:
    yield content_text(message.get("content"))[:200]
    for call in as_mappings(message.get("tool_calls")):
        function = as_mapping(call.get("function"))
        yield f"{function.get('name')} {str(function.get('arguments'))[:200]}"
