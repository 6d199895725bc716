"""What one agent is given for one task: notes and examples, searched, ranked and rendered."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from sqlalchemy import Engine

from contracts.errors import ModelUnavailable
from memory.content import sanitize_text
from memory.database import read_transaction
from memory.notes.agent_settings import InjectionOptions, read_settings
from memory.notes.content import entry_json
from memory.notes.render import NotebookBlock, render_block
from memory.notes.search import FoundEntries, NoteSearch
from memory.notes.types import Entry, Example, Note
from memory.scope import Scope
from memory.types import Embedder, Vector
from memory.vectors.embedding import embed_query

TASK_LIMIT = 4_000
"""Characters of a task that are used."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Injection(NotebookBlock):
    """A prompt block of notes and examples, with the reasons for the choice."""

    options: InjectionOptions
    reasons: tuple[str, ...] = ()
    distances: Mapping[int, float] = field(default_factory=dict)
    """Cosine distance from the task, by key, of entries that were found by meaning."""
    without_vector: int = 0
    """How many entries have no embedding, and so could not be compared with the task."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Notes, then examples, as in the prompt."""
        return (*self.notes, *self.examples)


def inject(
    engine: Engine,
    embedder: Embedder | None,
    *,
    viewer: Scope,
    task: str,
    options: InjectionOptions | None,
    at: datetime,
) -> Injection:
    """Return what the viewer's agent is given for a task, under `options` or its own settings."""
    if options is None:
        options = InjectionOptions()
        if viewer.agent is not None:
            with read_transaction(engine) as connection:
                options = read_settings(connection, viewer.agent)
    # Outside of any transaction: a model may take seconds.
    vector, no_vector_reason = _task_vector(embedder, task, options)
    notes = examples = FoundEntries()
    with read_transaction(engine) as connection:
        search = NoteSearch(
            connection=connection,
            viewer=viewer,
            at=at,
            model=embedder.name if embedder else "",
            vector=vector,
            no_vector_reason=no_vector_reason,
        )
        if options.inject_notes:
            notes = search.find("note", options.note_strategy, options.max_notes)
        if options.inject_examples:
            examples = search.find("example", options.example_strategy, options.max_examples)
    block = render_block(
        [entry for entry in notes.entries if isinstance(entry, Note)],
        [entry for entry in examples.entries if isinstance(entry, Example)],
        max_notes=options.max_notes,
        max_examples=options.max_examples,
        budget_tokens=options.budget_tokens,
    )
    return Injection(
        **vars(block),
        options=options,
        reasons=tuple(filter(None, (notes.reason, examples.reason))),
        distances={**notes.distances, **examples.distances},
        without_vector=notes.without_vector + examples.without_vector,
    )


def injection_json(injection: Injection) -> dict[str, object]:
    """Return the block, its entries and the reasons as JSON."""

    def shown(entry: Entry) -> dict[str, object]:
        return {**entry_json(entry), "distance": injection.distances.get(entry.key)}

    return {
        "text": injection.text,
        "notes": [shown(entry) for entry in injection.notes],
        "examples": [shown(entry) for entry in injection.examples],
        "left_out": [{"id": one.entry.id, "why": one.reason} for one in injection.omitted],
        "why": list(injection.reasons),
        "settings": asdict(injection.options),
    }


def _task_vector(
    embedder: Embedder | None, task: str, options: InjectionOptions
) -> tuple[Vector | None, str]:
    """Return the task's embedding, or None and the reason why there is none."""
    by_meaning = (options.inject_notes and options.note_strategy == "Relevant") or (
        options.inject_examples and options.example_strategy == "Semantic"
    )
    text = sanitize_text(task[:TASK_LIMIT].replace("\0", " ")).strip()
    if not by_meaning or not text:
        return None, "the task is empty"
    if embedder is None:
        return None, "no embedding model is set"
    try:
        return embed_query(embedder, text), ""
    except ModelUnavailable as error:
        _log.warning("notes are chosen by date, not by meaning: %s", error)
        return None, "the embedding model does not answer"
