"""What one run is shown, and the log of it: found, shown, cited, outcome."""

from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from memory.around_run import RecallOptions, RecallResult
from memory.content import sanitize_text
from memory.database import read_transaction, write_transaction
from memory.playbooks import journal, ranking
from memory.playbooks.library import Library
from memory.playbooks.lift import is_held_out
from memory.playbooks.render import RenderedPlaybooks, render_playbooks
from memory.tables import recalled_playbooks, recalls
from memory.types import (
    GroupThresholds,
    Outcome,
    OutcomeCounts,
    Playbook,
    PlaybookFilter,
    PlaybookQuery,
)

RUNS_BEFORE_HOLDOUT = 20
"""Runs of a store before any is held out: until then the data would be too thin anyway."""

_LOGGED = select(
    select(recalls.c.held_out).where(recalls.c.run_id == bindparam("run_id")).scalar_subquery(),
    select(func.count()).select_from(recalls).scalar_subquery(),
)


def recall_playbooks(
    library: Library, *, run_id: str, task: str, options: RecallOptions
) -> RecallResult:
    """Search memory for a task, render what fits, and log it under the run's id."""
    query = PlaybookQuery(
        text=task,
        limit=options.limit,
        filter=PlaybookFilter(
            drafts=False
        ),  # no run is shown what no person, or a run alone, stands for
        max_distance=options.max_distance,
        confidence_weight=options.confidence_weight,
    )
    found = library.search_with_context(query, options.contrast)
    held_out, share = _draw(library, run_id, options.holdout_share)
    fits = render_playbooks(found, budget_tokens=options.budget_tokens)
    rendered = RenderedPlaybooks(text="") if held_out or not found.hits else fits
    recall = RecallResult(
        run_id=run_id,
        text=rendered.text,
        shown=rendered.playbook_ids,
        held_out=held_out,
        results=found,
    )
    _log(library, recall, fits.playbook_ids, share)
    return recall


class RecalledPlaybook(NamedTuple):
    """One playbook that a run knew of."""

    playbook_id: str
    group: str
    shown: bool
    """False: its agent found and read it."""
    cited: bool


def playbooks_known_to(connection: Connection, run_id: str) -> list[RecalledPlaybook]:
    """The playbooks that a run was shown, the best first, then those that its agent read."""
    if was_held_out(connection, run_id):
        return []
    mine = (
        recalled_playbooks.c.run_id == run_id,
        or_(recalled_playbooks.c.shown, recalled_playbooks.c.cited),
    )
    rows = connection.execute(
        select(recalled_playbooks)
        .where(*mine)
        .order_by(recalled_playbooks.c.shown.desc(), recalled_playbooks.c.rank)
    )
    return [RecalledPlaybook(row.playbook_id, row.grouped, row.shown, row.cited) for row in rows]


def was_held_out(connection: Connection, run_id: str) -> bool:
    """Whether this run was drawn to be shown no playbook."""
    return bool(
        connection.execute(select(recalls.c.held_out).where(recalls.c.run_id == run_id)).scalar()
    )


def mark_cited(connection: Connection, run_id: str, playbook_ids: Collection[str]) -> None:
    """Note that the run's agent named these, which it knew of."""
    mine = (
        recalled_playbooks.c.run_id == run_id,
        recalled_playbooks.c.playbook_id.in_(playbook_ids),
    )
    connection.execute(update(recalled_playbooks).where(*mine).values(cited=True))


def mark_read(connection: Connection, run_id: str, playbook: Playbook) -> None:
    """Note that the run's agent read this one, whether it was shown to the run or not."""
    mine = (recalled_playbooks.c.run_id == run_id, recalled_playbooks.c.playbook_id == playbook.id)
    is_logged = select(recalls.c.run_id).where(recalls.c.run_id == run_id)
    if connection.execute(update(recalled_playbooks).where(*mine).values(cited=True)).rowcount:
        return
    if connection.execute(is_logged).first() is None:
        return
    recent = journal.recent_counts(connection, [playbook.key]).get(playbook.key, OutcomeCounts())
    group = ranking.result_group(playbook.counts, recent, GroupThresholds())
    about = {"rank": 0, "score": 0.0, "grouped": group}
    row = {"run_id": run_id, "playbook_id": playbook.id, "shown": False, "cited": True, **about}
    with suppress(IntegrityError), connection.begin_nested():  # read twice at once
        connection.execute(insert(recalled_playbooks).values(**row))


def set_outcome(connection: Connection, run_id: str, outcome: Outcome) -> None:
    """Note how the run ended."""
    connection.execute(update(recalls).where(recalls.c.run_id == run_id).values(outcome=outcome))


class _Drawn(NamedTuple):
    held_out: bool
    share: float
    """By what share the lot was drawn; 0: there was none."""


def _draw(library: Library, run_id: str, share: float) -> _Drawn:
    """As its log says; for a run that has none, by lot once the store is warm."""
    with read_transaction(library.engine) as connection:
        before, logged = connection.execute(_LOGGED, {"run_id": run_id}).one()
    drawn_by = share if logged >= RUNS_BEFORE_HOLDOUT else 0.0
    return _Drawn(is_held_out(run_id, drawn_by) if before is None else bool(before), drawn_by)


def _log(library: Library, recall: RecallResult, fits: Collection[str], share: float) -> None:
    """Log it; a run that goes on surfaces again, is still one run, and may be shown more."""
    found = [(group, hit) for group, hits in recall.results.groups.items() for hit in hits]
    rows: list[dict[str, object]] = [
        {
            "run_id": recall.run_id,
            "playbook_id": hit.playbook.id,
            "rank": rank,
            "score": hit.score,
            "grouped": group,
            "shown": hit.playbook.id in fits,
        }
        for rank, (group, hit) in enumerate(found, 1)
    ]
    about = {
        "run_id": recall.run_id,
        "at": library.clock(),
        "task": sanitize_text(recall.results.query)[:4_000],
        "held_out": recall.held_out,
        "share": share,
    }
    with write_transaction(library.engine) as connection:
        try:
            with connection.begin_nested():
                connection.execute(insert(recalls).values(**about))
        except IntegrityError:
            rows = _newly_shown(connection, recall.run_id, rows)
        if rows:
            connection.execute(insert(recalled_playbooks), rows)


def _newly_shown(
    connection: Connection, run_id: str, rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    shown = {row["playbook_id"]: row for row in rows if row["shown"]}
    mine = (recalled_playbooks.c.run_id == run_id, recalled_playbooks.c.playbook_id.in_(shown))
    now = (
        update(recalled_playbooks)
        .where(*mine)
        .values(shown=True)
        .returning(recalled_playbooks.c.playbook_id)
    )
    new = shown.keys() - connection.execute(now).scalars()
    ranks = select(func.max(recalled_playbooks.c.rank)).where(recalled_playbooks.c.run_id == run_id)
    last = connection.execute(ranks).scalar() or 0
    after = [row for id_, row in shown.items() if id_ in new]
    return [{**row, "rank": rank} for rank, row in enumerate(after, last + 1)]
