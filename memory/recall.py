"""What one run is shown, and the log of it: found, shown, cited, outcome."""

from collections.abc import Collection

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from memory import ranking
from memory.around_run import Recall, Surfacing
from memory.content import storable
from memory.database import reading, writing
from memory.library import Library
from memory.lift import is_held_out
from memory.render import Rendered, render
from memory.tables import recalled, recalls
from memory.types import Contrast, Filter, Outcome, Query

WARM_UP = 20
"""Runs of a store before any is held out: until then the data would be too thin anyway."""


def surface(library: Library, *, run_id: str, task: str, options: Surfacing) -> Recall:
    """Search memory for a task, render what fits, and log it under the run's id."""
    query = Query(
        text=task,
        limit=options.limit,
        filter=Filter(drafts=False),  # no run is shown what no person, or a run alone, stands for
        max_distance=options.max_distance,
        confidence_weight=options.confidence_weight,
    )
    found = library.search_with_context(query, options.contrast)
    held_out = _warm(library) and is_held_out(run_id, options.holdout_share)
    rendered = render(found, budget_tokens=options.budget_tokens)
    if held_out or not found.hits:
        rendered = Rendered(text="")
    recall = Recall(
        run_id=run_id, text=rendered.text, shown=rendered.shown, held_out=held_out, found=found
    )
    _log(library, recall, task, options.contrast)
    return recall


def shown_to(connection: Connection, run_id: str) -> list[tuple[str, str, bool]]:
    """Id, group and whether cited of each playbook that a run was shown, the best first."""
    query = select(recalled).where(recalled.c.run_id == run_id, recalled.c.shown)
    rows = connection.execute(query.order_by(recalled.c.rank))
    return [(row.playbook_id, row.grouped, row.cited) for row in rows]


def was_held_out(connection: Connection, run_id: str) -> bool:
    """Whether this run was drawn to be shown nothing."""
    return bool(
        connection.execute(select(recalls.c.held_out).where(recalls.c.run_id == run_id)).scalar()
    )


def cite(connection: Connection, run_id: str, playbook_ids: Collection[str]) -> None:
    """Note that the run's agent named or read these."""
    mine = (recalled.c.run_id == run_id, recalled.c.playbook_id.in_(playbook_ids))
    connection.execute(update(recalled).where(*mine).values(cited=True))


def close(connection: Connection, run_id: str, outcome: Outcome) -> None:
    """Note how the run ended."""
    connection.execute(update(recalls).where(recalls.c.run_id == run_id).values(outcome=outcome))


def _warm(library: Library) -> bool:
    with reading(library.engine) as connection:
        logged = connection.execute(select(func.count()).select_from(recalls)).scalar_one()
    return logged >= WARM_UP


def _log(library: Library, recall: Recall, task: str, contrast: Contrast) -> None:
    """Keep the first log of a run: a resumed run surfaces again, and is still one run."""
    rows = [
        {
            "run_id": recall.run_id,
            "playbook_id": hit.playbook.id,
            "rank": rank,
            "score": hit.score,
            "grouped": ranking.group(hit.playbook.counts, contrast),
            "shown": hit.playbook.id in recall.shown,
        }
        for rank, hit in enumerate(recall.found.hits, 1)
    ]
    about = {
        "run_id": recall.run_id,
        "at": library.clock(),
        "task": storable(task)[:4_000],
        "held_out": recall.held_out,
    }
    with writing(library.engine) as connection:
        try:
            with connection.begin_nested():
                connection.execute(insert(recalls).values(**about))
        except IntegrityError:
            return
        if rows:
            connection.execute(insert(recalled), rows)
