"""What a notebook knows of runs: what each was given, and what people think of it."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Engine

from memory.database import read_transaction, write_transaction
from memory.notes import content, rating, shown_log
from memory.notes.generation import notebook_transaction
from memory.notes.injection import Injection
from memory.notes.rating import RunRating
from memory.notes.shown_log import InjectedEntry


class RunHistory:
    """Keeps what runs were given, and their ratings."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self._clock = clock

    def log_injection(self, run_id: str, node: str, injection: Injection) -> None:
        """Note which notes and examples a node of a run was given."""
        with write_transaction(self._engine) as connection:
            shown_log.log(connection, run_id, node, injection, self._clock())

    def injected_into(self, run_id: str) -> Sequence[InjectedEntry]:
        """What a run was given, in the order of its nodes and of their prompts."""
        with read_transaction(self._engine) as connection:
            return shown_log.of_run(connection, run_id)

    def count_runs_with(self, entry_id: str) -> int:
        """How many runs were given this note or example."""
        with read_transaction(self._engine) as connection:
            return shown_log.runs_given(connection, entry_id)

    def rate(self, run_id: str, score: int, *, by: str = "") -> RunRating:
        """Keep what a person thinks of a run, 0 to 100; a later rating replaces an earlier one.

        Raises:
            NoteInvalid: the score is out of range.
        """
        made = RunRating(run_id, content.check_score(score), by, self._clock())
        with notebook_transaction(self._engine) as connection:
            rating.put(connection, made)
        return made

    def rating(self, run_id: str) -> RunRating | None:
        """What a person thinks of a run; None when nobody said."""
        with read_transaction(self._engine) as connection:
            return rating.get(connection, run_id)

    def runs_rated_since(self, at: datetime) -> Sequence[str]:
        """The ids of runs that somebody rated then or later."""
        with read_transaction(self._engine) as connection:
            return rating.since(connection, at)
