"""From a finished run to proposals that wait for a person: few, new, and flagged."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from contracts.chat import Complete
from contracts.errors import BudgetExceeded
from memory import curator, likeness, note_store
from memory.database import alone, reading, writing
from memory.errors import NoteInvalid, NoteNotFound
from memory.likeness import Neighbour
from memory.note_content import searched_text
from memory.note_tables import curations
from memory.note_types import DESCRIPTIVE, Author, Content, Entry, Flag, NoteContent, Where
from memory.notebook import Notebook
from memory.proposals import WRITES_A_RUN, Finding, Refused, Story, gives_order, judge
from memory.scope import Scope, label

KNOWN = 30
"""Kept notes that a curator is told of."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The operator's: what is approved without a person. By default nothing is."""

    confidence: int | None = None
    """Approve what the curator is at least so sure of, if it describes and gives no order, was
    compared and has no flag, and is for nobody else than the person or company that asked for
    the run. None: a person approves everything."""


@dataclass(frozen=True, kw_only=True)
class Curated:
    """What came of a run. `merged` are entries that said exactly the same already."""

    run_id: str
    written: tuple[Entry, ...] = ()
    merged: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    fault: str | None = None
    """Why nothing could be read out of the run."""


NO_RULE = Rule()


def curate_run(
    book: Notebook, complete: Complete, model: str, story: Story, *, rule: Rule = NO_RULE
) -> Curated:
    """Ask the model what the run teaches, and keep what holds as Pending.

    Doing it twice, or twice at once, adds nothing that is there already, and never more than
    five in all.

    Raises:
        ModelUnavailable: the model does not answer at all.
    """
    with _alone(book, story.run_id):
        return _look(book, complete, model, story, rule)


def curate_new(
    book: Notebook, complete: Complete, model: str, story: Story, *, rule: Rule = NO_RULE
) -> Curated | None:
    """The same for whom nobody asked: None where somebody looked already.

    A look that costs more than it may is a fault of the run, which is not looked at again.

    Raises:
        ModelUnavailable: the model does not answer at all.
    """
    with _alone(book, story.run_id):
        if is_curated(book, story.run_id):
            return None
        try:
            return _look(book, complete, model, story, rule)
        except BudgetExceeded as error:
            curated = Curated(run_id=story.run_id, fault=str(error))
            _log_curation(book, curated)
            return curated


def is_curated(book: Notebook, run_id: str) -> bool:
    """Whether somebody looked at this run already."""
    with reading(book.engine) as connection:
        query = select(curations.c.run_id).where(curations.c.run_id == run_id)
        return connection.execute(query).first() is not None


@contextmanager
def _alone(book: Notebook, run_id: str) -> Iterator[None]:
    """Have nobody else look at this run meanwhile. A few locks are shared by all runs."""
    with alone(book.engine, f"curate-{run_id[:1]}"):
        yield


def _look(book: Notebook, complete: Complete, model: str, story: Story, rule: Rule) -> Curated:
    known = _known(book, story)
    found = curator.find(complete, model, story, [_told(entry) for entry in known])
    if found is None:
        curated = Curated(run_id=story.run_id, fault=f"model {model} gave no answer of this shape")
    else:
        desk = _Desk(book, story, known, Author("curator", model), rule)
        with alone(book.engine, "curate"):  # two runs may teach the same at once
            curated = _keep(desk, found.findings)
    _log_curation(book, curated)
    return curated


class _Desk(NamedTuple):
    """What findings of one run are judged and kept with."""

    book: Notebook
    story: Story
    known: Sequence[Entry]
    author: Author
    rule: Rule


def _keep(desk: _Desk, findings: Sequence[Finding]) -> Curated:
    written: list[Entry] = []
    merged: list[str] = []
    refused: list[Refused] = []
    run_id = desk.story.run_id
    room = WRITES_A_RUN - _written_before(desk.book, run_id)
    for finding in sorted(findings, key=lambda one: -one.confidence):
        content = judge(finding, desk.story)
        if isinstance(content, Refused):
            refused.append(content)
        elif same := _same(desk.book, content):
            if same.status == "Revoked":
                refused.append(Refused(finding.words, f"a person revoked the same: {same.id}"))
            else:
                merged.append(same.id)
        elif len(written) >= room:
            refused.append(Refused(finding.words, f"a run may teach {WRITES_A_RUN} things at most"))
        else:
            try:
                written.append(_propose(desk, content, finding))
            except NoteInvalid as error:
                refused.append(Refused(finding.words, str(error)))
    for one in refused:
        _log.info("run %s: not proposed: %r: %s", run_id, one.words[:80], one.why)
    return Curated(
        run_id=run_id, written=tuple(written), merged=tuple(merged), refused=tuple(refused)
    )


def _propose(desk: _Desk, content: Content, finding: Finding) -> Entry:
    near = desk.book.neighbours(content)
    flags = _flags(content, finding, near.entries, desk.known)
    made = desk.book.add(
        content,
        author=desk.author,
        source_run=desk.story.run_id,
        confidence=finding.confidence,
        flags=flags,
    )
    for flag in flags:
        if flag.kind == "contradicts":
            with suppress(NoteNotFound):  # it was removed meanwhile
                desk.book.add_flag(flag.other, Flag("contradicts", made.id, flag.why))
    if near.whole and _fits(desk.rule, made, desk.story):
        return desk.book.approve(made.id, author=Author("curator", "rule"))
    return made


def _fits(rule: Rule, made: Entry, story: Story) -> bool:
    """Whether the operator's rule approves it, so far as it was compared."""
    describes = not isinstance(made, NoteContent) or made.type in DESCRIPTIVE
    sure = rule.confidence is not None and (made.confidence or 0) >= rule.confidence
    harmless = describes and not gives_order(made) and not made.flags
    return sure and harmless and _stays_at_home(made.scope, story)


def _stays_at_home(scope: Scope, story: Story) -> bool:
    """Whether a person asked for the run, and nobody is told who could not have seen it."""
    viewer = story.viewer
    if story.intent_from:
        return False
    if viewer.user is not None:
        return scope.user == viewer.user
    return viewer.company is not None and scope.company == viewer.company


def _same(book: Notebook, content: Content) -> Entry | None:
    """What says exactly the same, or said so until a person revoked it; not what is over."""
    now = book.clock()
    with reading(book.engine) as connection:
        for one in note_store.same_as(connection, content):
            if one.status == "Revoked" or one.expires_at is None or one.expires_at > now:
                return one
    return None


def _flags(
    content: Content, finding: Finding, near: Sequence[Neighbour], known: Sequence[Entry]
) -> list[Flag]:
    flags = {other.entry.id: likeness.flag(content, other) for other in near}
    for number in finding.contradicts:
        if 0 < number <= len(known):
            other = known[number - 1]
            flags[other.id] = Flag("contradicts", other.id, "the curator says so")
    return list(flags.values())


def _known(book: Notebook, story: Story) -> list[Entry]:
    """Notes that the run's viewer sees: contradictions are looked for among these."""
    viewer = replace(story.viewer, agent=story.agent if story.agent in book.agents else None)
    return list(book.visible_notes(viewer, limit=KNOWN))


def _told(entry: Entry) -> str:
    return f"({label(entry.scope)}) {' '.join(searched_text(entry).split())[:300]}"


def _written_before(book: Notebook, run_id: str) -> int:
    where = Where(source_run=run_id, author="curator")
    return book.count("note", where) + book.count("example", where)


def _log_curation(book: Notebook, curated: Curated) -> None:
    outcome = {
        "written": [entry.id for entry in curated.written],
        "merged": list(curated.merged),
        "refused": [asdict(one) for one in curated.refused],
        "fault": curated.fault,
    }
    with writing(book.engine) as connection:
        _put(connection, curated, outcome, book.clock())


def _put(
    connection: Connection, curated: Curated, outcome: dict[str, object], at: datetime
) -> None:
    connection.execute(delete(curations).where(curations.c.run_id == curated.run_id))
    row = {"run_id": curated.run_id, "at": at, "written": len(curated.written)}
    connection.execute(insert(curations).values(**row, outcome=outcome))
