"""What a run's commands tried to reach, and what they were told."""

import json
from dataclasses import asdict
from pathlib import Path

from sandbox.egress import EgressEvent

MAX_NOTICES = 20
MAX_EVENTS = 10_000
"""Decisions that are written down; a flood of more is told by the last line."""


class EgressLog:
    """Keeps every decision, one JSON object a line; the refused places are notices."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refused: dict[str, str] = {}
        self._count = 0

    def __call__(self, event: EgressEvent) -> None:
        self._count += 1
        if self._count > MAX_EVENTS:
            return
        with self._path.open("a") as file:
            last = {"more": "not written"} if self._count == MAX_EVENTS else {}
            file.write(json.dumps(asdict(event) | last) + "\n")
        if event.kind == "refused":
            self._refused[f"{event.host}:{event.port}"] = event.reason

    @property
    def notices(self) -> tuple[str, ...]:
        """One line for each refused place, the first twenty."""
        refused = list(self._refused.items())[:MAX_NOTICES]
        return tuple(f"no way out to {place}: {reason}" for place, reason in refused)
