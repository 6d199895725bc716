"""Export and import of playbooks, executions, notes and examples as one file of JSON lines.

Importing the same file again changes nothing. An entry that is newer here than in the file stays.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, insert

from memory.content import content_json, content_of, parse_content
from memory.database import read_transaction
from memory.entries import history, restore_entry
from memory.errors import EntryNotFound
from memory.export_lines import (
    AgentSettingsLine,
    EntryLine,
    ExecutionLine,
    ExportLine,
    NoteTypeLine,
    PlaybookLine,
    export_line,
    read_line,
)
from memory.notes import store as note_store
from memory.notes.agent_settings import (
    AgentSettings,
    check_agent,
    list_settings,
    read_settings,
    save_settings,
)
from memory.notes.content import entry_content_json, kind_of
from memory.notes.notebook import Notebook
from memory.notes.store import list_note_types, notebook_transaction
from memory.notes.types import Author, NoteType, ReviewFlag
from memory.playbooks import executions, store
from memory.playbooks.library import Library
from memory.playbooks.write import import_lessons, insert_playbook, update_playbook
from memory.tables import entries, note_types
from memory.types import Execution, Playbook


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did, as slugs of playbooks and ids of entries and executions.

    `kept` differ from the file and are as new or newer here. `executions` were not known here, or
    had no outcome.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()


def export_store(library: Library) -> Iterator[str]:
    """Yield a line for each playbook, execution, own note type, agent's settings, note and example.

    Archived playbooks and the history of all entries are included.

    Raises:
        StoreCorrupt: a row is damaged; without it the export would only look complete.
    """
    with read_transaction(library.engine) as connection:
        for playbook in store.list_everything(connection):
            yield export_line(playbook, history(connection, playbook.key, parse_content))
        for execution in reversed(executions.list_executions(connection)):
            yield export_line(execution)
        for note_type in list_note_types(connection):
            if not note_type.standard:
                yield export_line(note_type)
        for settings in list_settings(connection):
            yield export_line(settings)
        query = note_store.select_entries().order_by(entries.c.key)
        for entry in note_store.read_notes(connection, query, strict=True):
            yield export_line(entry, note_store.note_history(connection, entry.key))


def import_store(library: Library, book: Notebook, lines: Iterable[str]) -> Imported:
    """Import the lines of an export, also of formats 1 to 3: all of them, or none.

    All lines are validated before the first is imported. A playbook or entry that exists here, by
    its id, is replaced only by a higher version, and stays archived or Revoked if it is. Executions
    that are not known here are counted; those that are pending here get the file's outcome.

    Raises:
        EntryInvalid: a line was changed by hand; it is named.
        AgentUnknown: a note or an example is for an agent that does not exist here.
    """
    read = [read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for line in read:
        if isinstance(line, AgentSettingsLine):
            check_agent(line.settings.agent, book.agents)
        if isinstance(line, EntryLine) and line.content.scope.agent is not None:
            check_agent(line.content.scope.agent, book.agents)
    done: dict[str, list[str]] = {name: [] for name in Imported.__dataclass_fields__}
    new_ids: set[str] = set()
    at = library.clock()
    # One transaction: a process that is killed leaves no half of an import.
    with notebook_transaction(library.engine) as connection:
        for line in sorted(read, key=_order):
            match line:
                case NoteTypeLine(note_type=note_type):
                    how = _import_note_type(connection, note_type)
                    done[how].append(note_type.name)
                case AgentSettingsLine(settings=settings):
                    done[_import_settings(connection, settings, at)].append(settings.agent)
                case PlaybookLine():
                    playbook, how = _import_playbook(connection, line, at)
                    done[how].append(playbook.slug)
                    new_ids |= {line.id} if how == "created" else set()
                case ExecutionLine(execution=execution):
                    # The export has the counts of a playbook that is new here.
                    counts = execution.playbook_id not in new_ids
                    if _import_execution(connection, execution, at, counts=counts):
                        done["executions"].append(execution.id)
                case EntryLine():
                    done[_import_entry(connection, line)].append(line.id)
    return Imported(**{how: tuple(names) for how, names in done.items()})


def _order(line: ExportLine) -> tuple[int, int, int]:
    """Sort key: playbooks before their executions, the highest version and counts first."""
    match line:
        case NoteTypeLine() | AgentSettingsLine():
            return (0, 0, 0)
        case PlaybookLine(counts=counts):
            return (1, -line.version, -counts.successes - counts.partials - counts.failures)
        case ExecutionLine():
            return (2, 0, 0)
        case EntryLine():
            return (3, -line.version, 0)


def _import_note_type(connection: Connection, note_type: NoteType) -> str:
    if any(one.name.lower() == note_type.name.lower() for one in list_note_types(connection)):
        return "unchanged"
    # A standard type cannot be removed, so a file must not make one.
    connection.execute(insert(note_types).values(**vars(replace(note_type, standard=False))))
    return "created"


def _import_settings(connection: Connection, wanted: AgentSettings, at: datetime) -> str:
    here = read_settings(connection, wanted.agent)
    if vars(replace(here, version=0, updated_at=None)) == vars(
        replace(wanted, version=0, updated_at=None)
    ):
        return "unchanged"
    if here.version >= wanted.version:
        return "kept"
    save_settings(connection, replace(wanted, version=here.version), at)
    return "updated" if here.version else "created"


def _import_playbook(
    connection: Connection, line: PlaybookLine, at: datetime
) -> tuple[Playbook, str]:
    content = line.content
    here = store.find(connection, line.id, lock=True)
    if here is not None and here.id != line.id:
        here = None  # found by a slug that looks like an id
    if here is not None and here.status == "archived":
        content = replace(content, status="archived")
    if here is None:
        ids = {"id_": line.id, "slug": line.slug}
        here = insert_playbook(connection, content, source=line.source, at=at, **ids)
        columns = {
            **line.counts.model_dump(),
            "version": line.version,
            "created_at": line.created_at or at,
            "updated_at": line.updated_at or at,
            "last_used_at": line.last_used_at,
        }
        past = [{**one.model_dump(), "content": content_json(one.content)} for one in line.history]
        restore_entry(connection, here.key, columns, past)
        how = "created"
    else:
        how = _import_as(line.version, here.version, same=content_of(here) == content)
        if how == "updated":
            update_playbook(connection, here, content, source="import", at=at, version=line.version)
    lessons = [(lesson.text, lesson.run_id) for lesson in line.lessons]
    import_lessons(connection, here.key, lessons, at)
    return here, how


def _import_as(version: int, here: int, *, same: bool) -> str:
    """Return what an import does with an entry that is at version `here` of this store."""
    if same:
        return "unchanged"
    return "updated" if version > here else "kept"


def _import_execution(
    connection: Connection, execution: Execution, at: datetime, *, counts: bool
) -> bool:
    """Import an execution, and count it if it `counts`; return False if nothing changed."""
    key: int | None = None
    if execution.playbook_id is not None:
        playbook = store.by_id(connection, [execution.playbook_id]).get(execution.playbook_id)
        if playbook is None:
            return False
        key = playbook.key
    keep = executions.record_execution if counts and key else executions.import_execution
    if keep(connection, key, execution, at):
        return True
    has_expired = execution.outcome == "neutral" and execution.expires_at is not None
    if execution.outcome == "pending" or has_expired:
        return False
    return executions.settle_execution(connection, execution.id, execution.outcome, at)


def _import_entry(connection: Connection, line: EntryLine) -> str:
    content, author = line.content, Author(line.author.kind, line.author.name)
    try:
        here = note_store.get_entry(connection, line.id)
    except EntryNotFound:
        if store.by_id(connection, [line.id]):
            return "kept"
        new = note_store.insert_note(
            connection,
            content,
            author=author,
            at=line.updated_at,
            source_run=line.source_run,
            confidence=line.confidence,
            flags=[ReviewFlag(flag.kind, flag.other, flag.why) for flag in line.flags],
            evidence=line.evidence,
        )
        columns = {"id": line.id, "slug": line.id, "version": line.version}
        columns |= {"created_at": line.created_at}
        past: list[dict[str, object]] = [
            {
                "version": one.version,
                "at": one.at,
                "source": Author(one.author.kind, one.author.name).label,
                "content": entry_content_json(one.content),
            }
            for one in line.history
        ]
        restore_entry(connection, new.key, columns, past)
        return "created"
    if kind_of(here) != line.type:
        return "kept"
    if here.status == "Revoked":
        content = replace(content, status="Revoked")
    wanted = replace(here, **vars(content))
    same = entry_content_json(wanted) == entry_content_json(here)
    how = _import_as(line.version, here.version, same=same)
    if how == "updated":
        note_store.update_note(
            connection, wanted, author=author, at=line.updated_at, version=line.version
        )
    return how
