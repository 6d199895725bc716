"""A copy of the log's newest event ids outside its database, so that a truncation is noticed."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

from pydantic import BaseModel, ValidationError

from contracts.json import canonical_json
from policy.errors import LogDamaged, LogUnavailable
from policy.log.events import Clock


class LogHead(BaseModel, frozen=True, extra="forbid"):
    """The ids of a log's newest events, and their joined clock."""

    heads: list[str]
    clock: dict[str, int]


@dataclass(frozen=True)
class HeadFile:
    """The file with the head, written after each append."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock against other processes, so that an older head never replaces a newer one.

        Raises:
            LogUnavailable: the folder cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with Path(f"{self.path}.lock").open("ab") as lock:
                flock(lock, LOCK_EX)
                yield
        except OSError as error:
            raise LogUnavailable(f"cannot write the log's head {self.path}: {error}") from error

    def read(self) -> LogHead | None:
        """Return the head, or None if none has been written yet. The caller holds the lock.

        Raises:
            LogDamaged: the file holds something else.
        """
        try:
            return LogHead.model_validate(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, ValidationError) as error:
            raise LogDamaged(
                f"{self.path} is not the head of an event log; check the log, then run "
                "`harness events verify --accept` to write the file again"
            ) from error

    def write(self, heads: Iterable[str], clock: Clock) -> None:
        """Overwrite the head. The caller holds the lock.

        The file is overwritten in place: renaming a new file over it makes some file systems
        flush first, which took ten times as long as the rest of an append.
        """
        head = canonical_json({"heads": sorted(heads), "clock": dict(clock)}).encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, head.ljust(os.fstat(file).st_size), 0)
        finally:
            os.close(file)
