"""From a finished run to proposals that wait for a person: few, new, and flagged."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from sqlalchemy import delete, insert, select

from contracts.chat import Complete
from contracts.errors import BudgetExceeded
from memory.curation import curator
from memory.curation.proposals import (
    MAX_PROPOSALS_PER_RUN,
    CurationFinding,
    RejectedFinding,
    RunTranscript,
    review_finding,
)
from memory.database import exclusive_lock, read_transaction, write_transaction
from memory.errors import NoteInvalid, NoteNotFound
from memory.notes import near_duplicates, store
from memory.notes.content import searchable_text
from memory.notes.near_duplicates import NearDuplicate
from memory.notes.notebook import Notebook
from memory.notes.tables import curations
from memory.notes.types import Author, Entry, EntryContent, EntryFilter, ReviewFlag
from memory.scope import scope_label

MAX_KNOWN_NOTES = 30
"""Kept notes that a curator is told of."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CurationResult:
    """What came of a run. `merged` are entries that said exactly the same already."""

    run_id: str
    written: tuple[Entry, ...] = ()
    merged: tuple[str, ...] = ()
    refused: tuple[RejectedFinding, ...] = ()
    error: str | None = None
    """Why nothing could be read out of the run."""


def curate_run(
    book: Notebook, complete: Complete, model: str, story: RunTranscript
) -> CurationResult:
    """Ask the model what the run teaches, and keep what holds as Pending.

    Doing it twice, or twice at once, adds nothing that is there already, and never more than
    five in all.

    Raises:
        ModelUnavailable: the model does not answer at all.
    """
    with _alone(book, story.run_id):
        return _look(book, complete, model, story)


def curate_once(
    book: Notebook, complete: Complete, model: str, story: RunTranscript
) -> CurationResult | None:
    """The same for a run that nobody asked about: None where somebody looked already.

    A look that costs more than it may is a fault of the run, which is not looked at again.

    Raises:
        ModelUnavailable: the model does not answer at all.
    """
    with _alone(book, story.run_id):
        if is_curated(book, story.run_id):
            return None
        try:
            return _look(book, complete, model, story)
        except BudgetExceeded as error:
            curated = CurationResult(run_id=story.run_id, error=str(error))
            _log_curation(book, curated)
            return curated


def is_curated(book: Notebook, run_id: str) -> bool:
    """Whether somebody looked at this run already."""
    with read_transaction(book.engine) as connection:
        query = select(curations.c.run_id).where(curations.c.run_id == run_id)
        return connection.execute(query).first() is not None


@contextmanager
def _alone(book: Notebook, run_id: str) -> Iterator[None]:
    """Have nobody else look at this run meanwhile. A few locks are shared by all runs."""
    with exclusive_lock(book.engine, f"curate-{run_id[:1]}"):
        yield


def _look(book: Notebook, complete: Complete, model: str, story: RunTranscript) -> CurationResult:
    known = _known(book, story)
    found = curator.ask_curator(complete, model, story, [_told(entry) for entry in known])
    if found is None:
        curated = CurationResult(
            run_id=story.run_id, error=f"model {model} gave no answer of this shape"
        )
    else:
        look = _Look(book, story, known, Author("curator", model))
        with exclusive_lock(book.engine, "curate"):  # two runs may teach the same at once
            curated = _keep_all(look, found.findings)
    _log_curation(book, curated)
    return curated


class _Look(NamedTuple):
    """One look at a run, and where what it found is kept."""

    book: Notebook
    story: RunTranscript
    known: Sequence[Entry]
    """What the curator was told of, in this order."""
    author: Author


@dataclass(frozen=True)
class _Merged:
    """A finding that an entry says exactly so already."""

    id: str


def _keep_all(look: _Look, findings: Sequence[CurationFinding]) -> CurationResult:
    """Keep each finding that holds, the surest first, while the run has room."""
    written: list[Entry] = []
    merged: list[str] = []
    refused: list[RejectedFinding] = []
    run_id = look.story.run_id
    room = MAX_PROPOSALS_PER_RUN - _written_before(look.book, run_id)
    for finding in sorted(findings, key=lambda one: -one.confidence):
        match _keep(look, finding, has_room=len(written) < room):
            case _Merged(same):
                merged.append(same)
            case RejectedFinding() as found:
                _log.info("run %s: not proposed: %r: %s", run_id, found.words[:80], found.why)
                refused.append(found)
            case entry:
                written.append(entry)
    return CurationResult(
        run_id=run_id, written=tuple(written), merged=tuple(merged), refused=tuple(refused)
    )


def _keep(
    look: _Look, finding: CurationFinding, *, has_room: bool
) -> Entry | _Merged | RejectedFinding:
    content = review_finding(finding, look.story)
    if isinstance(content, RejectedFinding):
        return content
    same = _same(look.book, content)
    if same is not None and same.status == "Revoked":
        return RejectedFinding(finding.summary, f"a person revoked the same: {same.id}")
    if same is not None:
        return _Merged(same.id)
    if not has_room:
        return RejectedFinding(
            finding.summary, f"a run may teach {MAX_PROPOSALS_PER_RUN} things at most"
        )
    try:
        return _propose(look, content, finding)
    except NoteInvalid as error:
        return RejectedFinding(finding.summary, str(error))


def _propose(look: _Look, content: EntryContent, finding: CurationFinding) -> Entry:
    flags = _flags(content, finding, look.book.near_duplicates(content), look.known)
    made = look.book.add(
        content,
        author=look.author,
        source_run=look.story.run_id,
        confidence=finding.confidence,
        flags=flags,
    )
    for flag in flags:
        if flag.kind == "contradicts":
            with suppress(NoteNotFound):  # it was removed meanwhile
                look.book.add_flag(flag.other, ReviewFlag("contradicts", made.id, flag.why))
    return made


def _same(book: Notebook, content: EntryContent) -> Entry | None:
    """What says exactly the same, or said so until a person revoked it; not what is over."""
    now = book.clock()
    with read_transaction(book.engine) as connection:
        for one in store.exact_duplicates(connection, content):
            if one.status == "Revoked" or one.expires_at is None or one.expires_at > now:
                return one
    return None


def _flags(
    content: EntryContent,
    finding: CurationFinding,
    near: Sequence[NearDuplicate],
    known: Sequence[Entry],
) -> list[ReviewFlag]:
    flags = {other.entry.id: near_duplicates.review_flag(content, other) for other in near}
    for number in finding.contradicts:
        if 0 < number <= len(known):
            other = known[number - 1]
            flags[other.id] = ReviewFlag("contradicts", other.id, "the curator says so")
    return list(flags.values())


def _known(book: Notebook, story: RunTranscript) -> list[Entry]:
    """Notes that the run's viewer sees: contradictions are looked for among these."""
    viewer = replace(story.viewer, agent=story.agent if story.agent in book.agents else None)
    return list(book.visible_notes(viewer, limit=MAX_KNOWN_NOTES))


def _told(entry: Entry) -> str:
    return f"({scope_label(entry.scope)}) {' '.join(searchable_text(entry).split())[:300]}"


def _written_before(book: Notebook, run_id: str) -> int:
    where = EntryFilter(source_run=run_id, author="curator")
    return book.count("note", where) + book.count("example", where)


def _log_curation(book: Notebook, curated: CurationResult) -> None:
    """Note that somebody looked at the run, and what came of it; the last look counts."""
    outcome = {
        "written": [entry.id for entry in curated.written],
        "merged": list(curated.merged),
        "refused": [asdict(one) for one in curated.refused],
        "fault": curated.error,
    }
    row = {"run_id": curated.run_id, "at": book.clock(), "written": len(curated.written)}
    with write_transaction(book.engine) as connection:
        connection.execute(delete(curations).where(curations.c.run_id == curated.run_id))
        connection.execute(insert(curations).values(**row, outcome=outcome))
