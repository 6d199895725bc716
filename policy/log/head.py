"""The head of the event log, and its copy in a file outside the database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

from pydantic import BaseModel, ValidationError

from policy.errors import LogDamaged, LogUnavailable


class LogHead(BaseModel, frozen=True, extra="forbid"):
    """The ids of a log's newest events, their joined clock, and a digest of `merged_events`.

    `next` is the head after an append that has begun: a crash leaves the log at either of the two.
    """

    heads: tuple[str, ...]
    clock: dict[str, int]
    merged: str = ""
    next: "LogHead | None" = None

    @property
    def states(self) -> tuple["LogHead", ...]:
        """The heads that the log may have."""
        return (self, self.next) if self.next else (self,)


@dataclass(frozen=True)
class HeadFile:
    """A copy of the log's head outside its database, so that a truncation is noticed."""

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
            return LogHead.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise LogDamaged(
                f"{self.path} is not the head of an event log; check the log, then run "
                "`harness events verify --accept` to write the file again"
            ) from error

    def write(self, head: LogHead) -> None:
        """Overwrite the head. The caller holds the lock."""
        # Overwritten in place: renaming a new file over it makes some file systems flush first,
        # which took ten times as long as the rest of an append.
        data = head.model_dump_json(exclude_none=True).encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, data.ljust(os.fstat(file).st_size), 0)
        finally:
            os.close(file)
