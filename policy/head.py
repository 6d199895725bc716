"""The heads of a log, kept outside its database: who cuts the log short would have to cut both."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from filelock import BaseFileLock, FileLock
from pydantic import BaseModel, ValidationError

from contracts.json import canonical
from policy.errors import LogDamaged, LogUnavailable
from policy.events import Clock


class Head(BaseModel, frozen=True, extra="forbid"):
    """The newest events of a log and what they know."""

    heads: list[str]
    clock: dict[str, int]


@dataclass(frozen=True)
class HeadFile:
    """A small file, written whole after each append."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold off other processes, so that the file never goes back.

        Raises:
            LogUnavailable: the place cannot be written.
        """
        try:
            with self._lock:
                yield
        except OSError as error:
            raise LogUnavailable(f"cannot keep the log's head at {self.path}: {error}") from error

    @cached_property
    def _lock(self) -> BaseFileLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{self.path}.lock", poll_interval=0.002)

    def read(self) -> Head | None:
        """What was kept, or None when nothing was kept yet.

        Raises:
            LogDamaged: it is no head.
        """
        try:
            return Head.model_validate(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, ValidationError) as error:
            raise LogDamaged(
                f"{self.path} is no head of an event log; `harness events verify --accept` "
                "writes it anew, after you looked"
            ) from error

    def write(self, heads: Iterable[str], clock: Clock) -> None:
        """Keep these; a reader sees the old file or the new one."""
        part = self.path.with_suffix(".part")
        part.write_text(canonical({"heads": sorted(heads), "clock": dict(clock)}))
        part.replace(self.path)
