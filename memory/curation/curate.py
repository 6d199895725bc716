"""Asks a model what a finished run teaches, and proposes few, new notes for a person to approve."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from pydantic import ValidationError
from sqlalchemy import delete, insert, select

from contracts.chat import ChatRequest, Complete, Message
from contracts.errors import BudgetExceeded
from memory.content import first_problem
from memory.curation.proposals import (
    MAX_PROPOSALS_PER_RUN,
    CurationFinding,
    CurationFindings,
    RejectedFinding,
    ReviewedFinding,
    RunTranscript,
    review_finding,
    review_flag,
)
from memory.database import exclusive_lock, read_transaction, write_transaction
from memory.errors import EntryInvalid, EntryNotFound
from memory.notes import store as note_store
from memory.notes.content import searchable_text
from memory.notes.near_duplicates import find_near_duplicates
from memory.notes.notebook import Notebook
from memory.notes.search import list_visible
from memory.notes.types import Author, Entry, EntryContent, EntryFilter, ReviewFlag
from memory.playbooks.learn import render_template
from memory.scope import scope_label
from memory.tables import curations

MAX_KNOWN_NOTES = 30
"""Existing notes in the prompt, for the model to compare with."""

MAX_ATTEMPTS = 3
"""Answers that the model may give before its findings are dropped."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CurationResult:
    """Result of curating a run. `merged` are ids of entries that say exactly the same already."""

    run_id: str
    written: tuple[Entry, ...] = ()
    merged: tuple[str, ...] = ()
    refused: tuple[RejectedFinding, ...] = ()
    error: str | None = None
    """Why there are no findings."""


def curate_run(
    book: Notebook, complete: Complete, model: str, run: RunTranscript
) -> CurationResult:
    """Ask the model what the run teaches, and store what may be proposed as Pending.

    A second call, or one at the same time, proposes nothing twice, and never more than five in all.

    Raises:
        ModelUnavailable: the model does not answer.
    """
    # One run after another, because two runs may teach the same.
    with exclusive_lock(book.engine, "curate"):
        return _curate(book, complete, model, run)


def curate_once(
    book: Notebook, complete: Complete, model: str, run: RunTranscript
) -> CurationResult | None:
    """Like `curate_run`, for scheduled curation: None if the run was already curated.

    If the budget is exceeded, that is stored as the run's error, and it is not curated again.

    Raises:
        ModelUnavailable: the model does not answer.
    """
    with exclusive_lock(book.engine, "curate"):
        if is_curated(book, run.run_id):
            return None
        try:
            return _curate(book, complete, model, run)
        except BudgetExceeded as error:
            result = CurationResult(run_id=run.run_id, error=str(error))
            _store_result(book, result)
            return result


def is_curated(book: Notebook, run_id: str) -> bool:
    """Return True if this run was already curated."""
    with read_transaction(book.engine) as connection:
        query = select(curations.c.run_id).where(curations.c.run_id == run_id)
        return connection.execute(query).first() is not None


def ask_curator(
    complete: Complete, model: str, run: RunTranscript, known: Sequence[str]
) -> CurationFindings | None:
    """Return the model's findings; None, with a warning, if it never answers in this form.

    Raises:
        ModelUnavailable: the model does not answer.
    """
    messages = [Message(role="user", content=curation_prompt(run, known))]
    problem = ""
    for _ in range(MAX_ATTEMPTS):
        answer = complete(ChatRequest(model=model, messages=messages)).message
        try:
            # Models wrap JSON in Markdown fences and sentences.
            start, end = answer.content.find("{"), answer.content.rfind("}")
            return CurationFindings.model_validate(json.loads(answer.content[start : end + 1]))
        except (ValueError, RecursionError) as error:
            problem = _problem(error)
        request = f"That does not fit: {problem}. The schema is:\n{_schema()}"
        messages += [
            Message(role="assistant", content=answer.content or "(nothing)"),
            Message(role="user", content=request),
        ]
    _log.warning("findings of model %s in run %s are dropped: %s", model, run.run_id, problem)
    return None


def curation_prompt(run: RunTranscript, known: Sequence[str]) -> str:
    """Return the prompt about a run; `known` are existing notes."""
    return render_template(
        "curate.md.j2", run=run, known=known, most=MAX_PROPOSALS_PER_RUN, schema=_schema()
    )


def _curate(book: Notebook, complete: Complete, model: str, run: RunTranscript) -> CurationResult:
    viewer = replace(run.viewer, agent=run.agent if run.agent in book.agents else None)
    with read_transaction(book.engine) as connection:
        known = list_visible(
            connection, "note", viewer, order="Recent", at=book.clock(), limit=MAX_KNOWN_NOTES
        )
    found = ask_curator(complete, model, run, [_one_line(entry) for entry in known])
    if found is None:
        error = f"model {model} gave no answer in the requested form"
        result = CurationResult(run_id=run.run_id, error=error)
    else:
        curation = _Curation(book, run, known, Author("curator", model))
        result = curation.propose_all(found.findings)
    _store_result(book, result)
    return result


@dataclass(frozen=True)
class _Curation:
    """One curation of a run; `known` are the notes that the prompt listed, in this order."""

    book: Notebook
    run: RunTranscript
    known: Sequence[Entry]
    author: Author

    def propose_all(self, findings: Sequence[CurationFinding]) -> CurationResult:
        """Propose findings, the most confident first, until the run has no room for more."""
        written: list[Entry] = []
        merged: list[str] = []
        refused: list[RejectedFinding] = []
        run_id = self.run.run_id
        of_run = EntryFilter(source_run=run_id, author="curator")
        before = self.book.count("note", of_run) + self.book.count("example", of_run)
        for finding in sorted(findings, key=lambda one: -one.confidence):
            has_room = before + len(written) < MAX_PROPOSALS_PER_RUN
            match self._propose(finding, has_room=has_room):
                case str(same_id):
                    merged.append(same_id)
                case RejectedFinding() as rejected:
                    _log.info(
                        "run %s: not proposed: %r: %s", run_id, rejected.words[:80], rejected.why
                    )
                    refused.append(rejected)
                case entry:
                    written.append(entry)
        return CurationResult(
            run_id=run_id, written=tuple(written), merged=tuple(merged), refused=tuple(refused)
        )

    def _propose(
        self, finding: CurationFinding, *, has_room: bool
    ) -> Entry | str | RejectedFinding:
        """Return the new entry, the id of an entry that says exactly the same, or the reason."""
        reviewed = review_finding(finding, self.run)
        if isinstance(reviewed, RejectedFinding):
            return reviewed
        content = reviewed.content
        same = self._same(content)
        # Otherwise the next run that teaches the same would bring back what a person revoked.
        if same is not None and same.status == "Revoked":
            return RejectedFinding(finding.summary, f"a person revoked the same: {same.id}")
        if same is not None:
            return same.id
        if not has_room:
            reason = f"a run may lead to {MAX_PROPOSALS_PER_RUN} proposals at most"
            return RejectedFinding(finding.summary, reason)
        try:
            return self._add(reviewed, finding)
        except EntryInvalid as error:
            return RejectedFinding(finding.summary, str(error))

    def _same(self, content: EntryContent) -> Entry | None:
        """Return an entry that says exactly the same and has not expired."""
        now = self.book.clock()
        with read_transaction(self.book.engine) as connection:
            for entry in note_store.exact_duplicates(connection, content):
                expires_at = entry.expires_at
                if entry.status == "Revoked" or expires_at is None or expires_at > now:
                    return entry
        return None

    def _add(self, reviewed: ReviewedFinding, finding: CurationFinding) -> Entry:
        content = reviewed.content
        flags: dict[str, ReviewFlag] = {}
        self.book.index.embed_changes()
        vectors = self.book.index.embed([searchable_text(content)])
        if vectors and vectors[0]:  # empty: the model refuses this text
            model = self.book.index.model or ""
            with read_transaction(self.book.engine) as connection:
                near = find_near_duplicates(connection, content, vectors[0], model)
            flags = {one.entry.id: review_flag(content, one) for one in near}
        for number in finding.contradicts:
            if 0 < number <= len(self.known):
                other = self.known[number - 1].id
                flags[other] = ReviewFlag("contradicts", other, "the curator says so")
        entry = self.book.add(
            content,
            author=self.author,
            source_run=self.run.run_id,
            confidence=finding.confidence,
            evidence=reviewed.evidence,
            flags=list(flags.values()),
        )
        for flag in flags.values():
            if flag.kind == "contradicts":
                with suppress(EntryNotFound):  # removed since
                    self.book.add_flag(flag.other, ReviewFlag("contradicts", entry.id, flag.why))
        return entry


def _one_line(entry: Entry) -> str:
    return f"({scope_label(entry.scope)}) {' '.join(searchable_text(entry).split())[:300]}"


def _problem(error: ValueError | RecursionError) -> str:
    match error:
        case json.JSONDecodeError():
            return f"it is not JSON ({error.msg} at character {error.pos})"
        case ValidationError():
            return first_problem(error)
        case _:  # nested too deeply, or a number too long
            return f"it cannot be read ({error})"


def _schema() -> str:
    return json.dumps(CurationFindings.model_json_schema())


def _store_result(book: Notebook, result: CurationResult) -> None:
    """Store that the run was curated, in place of an earlier result."""
    outcome = {
        "written": [entry.id for entry in result.written],
        "merged": list(result.merged),
        "refused": [asdict(rejected) for rejected in result.refused],
        "fault": result.error,
    }
    row = {"run_id": result.run_id, "at": book.clock(), "written": len(result.written)}
    with write_transaction(book.engine) as connection:
        connection.execute(delete(curations).where(curations.c.run_id == result.run_id))
        connection.execute(insert(curations).values(**row, outcome=outcome))
