"""Playbooks shown to a run, and the log of them: found, shown, cited, outcome of the run."""

from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from memory.content import sanitize_text
from memory.database import read_transaction, write_transaction
from memory.playbooks import executions
from memory.playbooks.library import Library
from memory.playbooks.lift import is_held_out
from memory.playbooks.render import RenderedPlaybooks, render_playbooks, render_titles
from memory.playbooks.usefulness import RecentOutcomes, result_group
from memory.tables import recalled_playbooks, recalls
from memory.types import (
    GroupThresholds,
    Outcome,
    Playbook,
    PlaybookFilter,
    PlaybookQuery,
    RecallOptions,
    RecallResult,
)

RUNS_BEFORE_HOLDOUT = 20
"""Runs of a store before any is held out: with fewer, a comparison says nothing."""

DEFAULT_RECALL_OPTIONS = RecallOptions()

NO_DRAFTS = PlaybookFilter(drafts=False)
"""What runs are shown: a person has reviewed it."""


def recall_playbooks(
    library: Library, *, run_id: str, task: str, options: RecallOptions
) -> RecallResult:
    """Search playbooks for a task, render those that fit, and log them under the run's id."""
    query = PlaybookQuery(
        text=task,
        limit=options.limit,
        filter=NO_DRAFTS,
        max_distance=options.max_distance,
        confidence_weight=options.confidence_weight,
        optimistic=True,
    )
    results = library.search_with_context(query, options.contrast, seed=run_id)
    held_out, share = _draw(library, run_id, options.holdout_share)
    fitting = render_playbooks(results, budget_tokens=options.budget_tokens)
    shown = RenderedPlaybooks(text="") if held_out or not results.hits else fitting
    recall = RecallResult(
        run_id=run_id,
        text=shown.text,
        shown=shown.playbook_ids,
        held_out=held_out,
        results=results,
    )
    _log(library, recall, fitting.playbook_ids, share)
    return recall


def suggest_playbooks(
    library: Library,
    prompt: str,
    *,
    tools: Collection[str] = (),
    options: RecallOptions = DEFAULT_RECALL_OPTIONS,
) -> str:
    """Return the titles of playbooks for a prompt, for an agent that has these tools."""
    query = PlaybookQuery(
        text=prompt, limit=options.limit, filter=NO_DRAFTS, max_distance=options.max_distance
    )
    return render_titles([result.playbook for result in library.search(query)], tools)


class RecalledPlaybook(NamedTuple):
    """A playbook that a run was shown, or that its agent read."""

    playbook_id: str
    group: str
    shown: bool
    cited: bool


def playbooks_known_to(connection: Connection, run_id: str) -> list[RecalledPlaybook]:
    """Return the playbooks that a run was shown, best first, then those that its agent read."""
    if was_held_out(connection, run_id):
        return []
    columns = recalled_playbooks.c
    known = (columns.run_id == run_id, or_(columns.shown, columns.cited))
    query = select(columns.playbook_id, columns.grouped, columns.shown, columns.cited)
    query = query.where(*known).order_by(columns.shown.desc(), columns.rank)
    return [RecalledPlaybook(*row) for row in connection.execute(query)]


def was_held_out(connection: Connection, run_id: str) -> bool:
    """Return True if this run is in the control group, which is shown no playbook."""
    query = select(recalls.c.held_out).where(recalls.c.run_id == run_id)
    return bool(connection.execute(query).scalar())


def mark_cited(connection: Connection, run_id: str, playbook_ids: Collection[str]) -> None:
    """Log that the run's agent named these of the playbooks it knew."""
    _update(connection, run_id, playbook_ids, cited=True)


def mark_read(connection: Connection, run_id: str, playbook: Playbook) -> None:
    """Log that the run's agent read this playbook, shown or not."""
    if _update(connection, run_id, [playbook.id], cited=True):
        return
    is_logged = select(recalls.c.run_id).where(recalls.c.run_id == run_id)
    if connection.execute(is_logged).first() is None:
        return
    recent = executions.recent_outcomes(connection, [playbook.key])
    latest = recent.get(playbook.key, RecentOutcomes())
    row = {
        "run_id": run_id,
        "playbook_id": playbook.id,
        "rank": 0,
        "score": 0.0,
        "grouped": result_group(playbook.counts, latest, GroupThresholds()),
        "shown": False,
        "cited": True,
    }
    with suppress(IntegrityError), connection.begin_nested():  # two reads at the same time
        connection.execute(insert(recalled_playbooks).values(**row))


def set_outcome(connection: Connection, run_id: str, outcome: Outcome) -> None:
    """Log how the run ended."""
    connection.execute(update(recalls).where(recalls.c.run_id == run_id).values(outcome=outcome))


def _draw(library: Library, run_id: str, holdout_share: float) -> tuple[bool, float]:
    """Return whether the run is held out, and the share of held-out runs in the draw.

    A resumed run keeps the decision in its log.
    """
    before = select(recalls.c.held_out).where(recalls.c.run_id == run_id)
    with read_transaction(library.engine) as connection:
        logged = connection.execute(select(func.count()).select_from(recalls)).scalar_one()
        held_out = connection.execute(before).scalar()
    share = holdout_share if logged >= RUNS_BEFORE_HOLDOUT else 0.0
    return is_held_out(run_id, share) if held_out is None else held_out, share


def _log(library: Library, recall: RecallResult, fitting: Collection[str], share: float) -> None:
    """Log a recall. A resumed run recalls again: only newly shown playbooks are added."""
    grouped = [(group, r) for group, results in recall.results.groups.items() for r in results]
    rows: list[dict[str, object]] = [
        {
            "run_id": recall.run_id,
            "playbook_id": result.playbook.id,
            "rank": rank,
            "score": result.score,
            "grouped": group,
            "shown": result.playbook.id in fitting,
        }
        for rank, (group, result) in enumerate(grouped, 1)
    ]
    run = {
        "run_id": recall.run_id,
        "at": library.clock(),
        # Prompts come from webhooks and web pages too: Postgres refuses NUL bytes.
        "task": sanitize_text(recall.results.query)[:4_000],
        "held_out": recall.held_out,
        "share": share,
    }
    with write_transaction(library.engine) as connection:
        try:
            with connection.begin_nested():
                connection.execute(insert(recalls).values(**run))
        except IntegrityError:
            rows = _newly_shown(connection, recall.run_id, rows)
        if rows:
            connection.execute(insert(recalled_playbooks), rows)


def _newly_shown(
    connection: Connection, run_id: str, rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Mark logged playbooks as shown; return rows for the others, ranked after them."""
    shown = {str(row["playbook_id"]): row for row in rows if row["shown"]}
    logged = _update(connection, run_id, shown, shown=True)
    ranks = select(func.max(recalled_playbooks.c.rank)).where(recalled_playbooks.c.run_id == run_id)
    last = connection.execute(ranks).scalar() or 0
    new = [row for id_, row in shown.items() if id_ not in logged]
    return [{**row, "rank": rank} for rank, row in enumerate(new, last + 1)]


def _update(
    connection: Connection, run_id: str, playbook_ids: Collection[str], **values: bool
) -> set[str]:
    """Update the run's log of these playbooks; return the ids of those that it has."""
    columns = recalled_playbooks.c
    these = (columns.run_id == run_id, columns.playbook_id.in_(playbook_ids))
    statement = update(recalled_playbooks).where(*these).values(**values)
    return set(connection.execute(statement.returning(columns.playbook_id)).scalars())
