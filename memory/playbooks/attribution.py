"""What of a playbook a run followed: the version that it was shown, and since when."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, func, select

from memory.content import sanitize_text
from memory.tables import playbooks, recalls, versions
from memory.types import Execution


def completed(connection: Connection, key: int | None, execution: Execution) -> Execution:
    """The execution with its version and its beginning, as far as it does not tell them itself.

    A run began when it was shown what memory had, and that version it was shown. Without a run it
    is the version of now.
    """
    shown_at = _shown_at(connection, execution.run_id) if execution.run_id else None
    version = execution.playbook_version
    if version is None and key is not None:
        version = _version(connection, key, shown_at)
    return replace(execution, playbook_version=version, started_at=execution.started_at or shown_at)


def _shown_at(connection: Connection, run_id: str) -> datetime | None:
    query = select(recalls.c.at).where(recalls.c.run_id == sanitize_text(run_id))
    return connection.execute(query).scalar()


def _version(connection: Connection, key: int, at: datetime | None) -> int | None:
    now = select(playbooks.c.version).where(playbooks.c.key == key)
    if at is None:
        return connection.execute(now).scalar()
    of_then = (versions.c.playbook_key == key, versions.c.at <= at)
    then = select(func.max(versions.c.version)).where(*of_then)
    return connection.execute(then).scalar() or connection.execute(now).scalar()
