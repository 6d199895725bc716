"""The heads of a log, kept outside its database: to cut the log short takes cutting both."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ValidationError

from contracts.json import canonical_json
from policy.errors import LogDamaged, LogUnavailable
from policy.log.events import Clock


class LogHead(BaseModel, frozen=True, extra="forbid"):
    """The newest events of a log and what they know."""

    heads: list[str]
    clock: dict[str, int]


@dataclass(frozen=True)
class HeadFile:
    """A small file, written after each append."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold off other processes, so that the file never goes back.

        Raises:
            LogUnavailable: the place cannot be written.
        """
        try:
            with self._beside.open("ab") as lock:
                flock(lock, LOCK_EX)
                yield
        except OSError as error:
            raise LogUnavailable(f"cannot keep the log's head at {self.path}: {error}") from error

    @cached_property
    def _beside(self) -> Path:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return Path(f"{self.path}.lock")

    def read(self) -> LogHead | None:
        """What was kept, or None when nothing was kept yet. For who holds the lock.

        Raises:
            LogDamaged: it is no head.
        """
        try:
            return LogHead.model_validate(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, ValidationError) as error:
            raise LogDamaged(
                f"{self.path} is no head of an event log; `harness events verify --accept` "
                "writes it anew, after you looked"
            ) from error

    def write(self, heads: Iterable[str], clock: Clock) -> None:
        """Keep these. Whoever holds the lock sees the old head or the new one.

        It is written over in one go: to put a new file in its place makes some file systems
        write the old one out first, which takes ten times as long as all the rest of an append.
        """
        new = canonical_json({"heads": sorted(heads), "clock": dict(clock)}).encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, new.ljust(os.fstat(file).st_size), 0)
        finally:
            os.close(file)
