"""What one agent is given for one task: chosen, ranked, rendered, remembered."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from contracts.errors import ModelUnavailable
from memory.content import sanitize_text
from memory.database import read_transaction
from memory.notes import agent_settings
from memory.notes import generation as note_generation
from memory.notes.agent_settings import InjectionOptions
from memory.notes.cache import Remembered
from memory.notes.render import NotebookBlock, render_block
from memory.notes.search import FoundEntries, NoteSearch
from memory.notes.types import Entry, Example, Note
from memory.notes.vector_cache import Shelves
from memory.scope import Scope
from memory.types import Embedder, Vector
from memory.vectors.query_vector import embed_query

SETTINGS_LAST = timedelta(minutes=5)
RESULTS_LAST = timedelta(minutes=1)

TASK_LIMIT = 4_000
"""Characters of a task that are read."""

_log = logging.getLogger(__name__)


class InjectionRequest(NamedTuple):
    """Who asks, and for which task. `options` stand in for the agent's own, for a preview."""

    viewer: Scope
    task: str
    options: InjectionOptions | None = None


@dataclass(frozen=True, kw_only=True)
class Injection(NotebookBlock):
    """What a prompt is given, and why."""

    options: InjectionOptions
    why: tuple[str, ...] = ()
    distances: Mapping[int, float] = field(default_factory=dict)
    """By key, of what was found by meaning."""
    without_vector: int = 0
    """How many could not be compared with the task: there is no vector."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Notes and examples, in order."""
        return (*self.notes, *self.examples)


class _Task(NamedTuple):
    vector: Vector | None
    excuse: str = ""


class Injector:
    """Answers requests; what it remembers is dropped with the first write by anyone."""

    def __init__(
        self, engine: Engine, embedder: Embedder | None, clock: Callable[[], datetime]
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._clock = clock
        self._settings: Remembered[str, InjectionOptions] = Remembered(
            lasts=SETTINGS_LAST, most=100, clock=clock
        )
        self._results: Remembered[InjectionRequest, Injection] = Remembered(
            lasts=RESULTS_LAST, most=500, clock=clock
        )
        self._shelves = Shelves()

    def inject(self, request: InjectionRequest) -> Injection:
        """What the viewer is given for the task: the same for the same store and request."""
        with read_transaction(self._engine) as connection:
            generation = note_generation.current_generation(connection)
            known = self._results.get(generation, request)
            options = request.options or self._options(connection, generation, request.viewer)
        if known is not None:
            return known
        task = self._understood(request.task, options)
        with read_transaction(self._engine) as connection:
            search = NoteSearch(
                connection=connection,
                shelves=self._shelves,
                generation=note_generation.current_generation(connection),
                viewer=request.viewer,
                model=self._embedder.name if self._embedder else "",
                vector=task.vector,
                excuse=task.excuse,
                at=self._clock(),
            )
            made = _answer(search, options)
        until = min((e.expires_at for e in made.entries if e.expires_at), default=None)
        # Under the generation that was read first: a write since then made this stale.
        return self._results.put(generation, request, made, until=until)

    def _options(self, connection: Connection, generation: int, viewer: Scope) -> InjectionOptions:
        if viewer.agent is None:
            return InjectionOptions()
        known = self._settings.get(generation, viewer.agent)
        if known is not None:
            return known
        read = agent_settings.read_settings(connection, viewer.agent)
        return self._settings.put(generation, viewer.agent, read)

    def _understood(self, said: str, options: InjectionOptions) -> _Task:
        by_meaning = (options.inject_notes and options.note_strategy == "Relevant") or (
            options.inject_examples and options.example_strategy == "Semantic"
        )
        text = sanitize_text(said[:TASK_LIMIT].replace("\0", " ")).strip()
        if not by_meaning or not text:
            return _Task(None, "the task is empty")
        if self._embedder is None:
            return _Task(None, "no embedding model is set")
        try:
            return _Task(embed_query(self._embedder, text))
        except ModelUnavailable as error:
            _log.warning("notes are chosen by date, not by meaning: %s", error)
            return _Task(None, "the embedding model does not answer")


def _answer(search: NoteSearch, options: InjectionOptions) -> Injection:
    nothing = FoundEntries(why="")
    notes = search.notes(options) if options.inject_notes else nothing
    examples = search.examples(options) if options.inject_examples else nothing
    block = render_block(
        [entry for entry in notes.entries if isinstance(entry, Note)],
        [entry for entry in examples.entries if isinstance(entry, Example)],
        max_notes=options.max_notes,
        max_examples=options.max_examples,
        budget_tokens=options.budget_tokens,
    )
    return Injection(
        text=block.text,
        notes=block.notes,
        examples=block.examples,
        left_out=block.left_out,
        options=options,
        why=tuple(filter(None, (notes.why, examples.why))),
        distances={**notes.distances, **examples.distances},
        without_vector=notes.waiting + examples.waiting,
    )
