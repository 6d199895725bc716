"""What one run may write through the playbook tools: counted in the store, whoever asks for it.

A run's token lies in its sandbox, so what runs there may write as often as its agent. The count
survives a resume, and is one for all its agents and lanes.
"""

from contextlib import suppress

from sqlalchemy import Connection, insert, update
from sqlalchemy.exc import IntegrityError

from memory.content import content_length
from memory.errors import PlaybookInvalid
from memory.tables import run_writes
from memory.types import PlaybookContent

MAX_NEW_PLAYBOOKS = 5
"""Playbooks that a run may keep."""

MAX_WRITES = 20
"""Playbooks that it may keep, change or delete, all together."""

MAX_CHARACTERS = 20_000
"""Characters that a playbook may have when a run has written it, unless it had as many before."""


def count_write(connection: Connection, run_id: str, *, new: bool = False) -> None:
    """Count one write of a run, in the transaction of that write.

    Raises:
        PlaybookInvalid: the run has written as much as it may.
    """
    mine = run_writes.c.run_id == run_id
    left = (
        mine,
        run_writes.c.writes < MAX_WRITES,
        run_writes.c.created + int(new) <= MAX_NEW_PLAYBOOKS,
    )
    raised = {"writes": run_writes.c.writes + 1, "created": run_writes.c.created + int(new)}
    with suppress(IntegrityError), connection.begin_nested():  # it wrote before
        connection.execute(insert(run_writes).values(run_id=run_id, writes=0, created=0))
    if not connection.execute(update(run_writes).where(*left).values(**raised)).rowcount:
        raise PlaybookInvalid(
            f"this run has used up its {MAX_WRITES} writes or {MAX_NEW_PLAYBOOKS} new playbooks. "
            "Say in your answer what else should be kept"
        )


def check_size(content: PlaybookContent, before: PlaybookContent | None = None) -> None:
    """Refuse a playbook that is longer than a run may write one.

    Raises:
        PlaybookInvalid: it is, and is longer than it was.
    """
    size = content_length(content)
    if size > max(MAX_CHARACTERS, content_length(before) if before else 0):
        raise PlaybookInvalid(
            f"the playbook would have {size:,} characters; an agent may write {MAX_CHARACTERS:,}. "
            "Keep what is needed"
        )
