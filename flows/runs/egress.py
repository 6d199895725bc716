"""Log of the hosts that a run's commands tried to reach, with each decision."""

import json
from dataclasses import asdict
from pathlib import Path

from sandbox.egress import EgressEvent

MAX_NOTICES = 20
MAX_EVENTS = 10_000
"""Decisions that are logged. The last line says that more were made."""


class EgressLog:
    """Appends each decision to `egress.jsonl`; refused hosts become notices in the report."""

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
        """One line for each of the first twenty refused hosts."""
        refused = list(self._refused.items())[:MAX_NOTICES]
        return tuple(f"no way out to {place}: {reason}" for place, reason in refused)
