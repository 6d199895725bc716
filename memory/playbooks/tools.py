"""Playbook tools of agents: their arguments, what each may do, and the call of one.

The token that opens the tools lies in the run's sandbox, so any program there can call them. What
a run may write is therefore limited in the store, over all its agents, lanes and resumes.
"""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from sqlalchemy import Connection, insert, update
from sqlalchemy.exc import IntegrityError

from contracts.errors import BadInput, Unavailable
from contracts.tool import Tool, ToolCall
from memory.content import content_length, first_problem, playbook_json, sanitize_text
from memory.database import read_transaction, write_transaction
from memory.errors import EntryInvalid, StaleUpdate
from memory.playbooks import recall, store
from memory.playbooks.library import Library
from memory.playbooks.recall import DEFAULT_RECALL_OPTIONS
from memory.tables import run_writes
from memory.types import (
    Playbook,
    PlaybookChanges,
    PlaybookContent,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookStep,
    RecallOptions,
)

MAX_LISTED = 200
"""Playbooks in one answer of `playbook_list`."""

MAX_NEW_PLAYBOOKS = 5
"""Playbooks that a run may create."""

MAX_WRITES = 20
"""Times that a run may create, change or delete a playbook."""

MAX_CHARACTERS = 20_000
"""Characters of a playbook that a run writes, unless it had more before."""

STORE_UNAVAILABLE = "the playbooks cannot be reached now; go on without them"

ToolAccess = Literal["read", "draft"]
"""What an agent may do: read; or also write drafts, which no other run sees before a person makes
them active."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ToolCaller:
    """The run whose agent calls a tool, its access, and defaults for its searches."""

    run_id: str
    access: ToolAccess
    options: RecallOptions

    @property
    def source(self) -> str:
        """The source under which its playbooks are stored."""
        return f"run {self.run_id}"

    def filter(self, *, category: str | None = None, tags: tuple[str, ...] = ()) -> PlaybookFilter:
        """Return a filter without drafts of other runs: they could be meant to mislead this one."""
        return PlaybookFilter(category=category, tags=tags, drafts=False, own_source=self.source)


def _storable(text: str) -> str:
    if text != sanitize_text(text):
        raise ValueError("it has a NUL byte or an unpaired surrogate")
    return text


_Name = Annotated[str, AfterValidator(_storable)]
_Version = Annotated[int, Field(ge=0, le=1_000_000_000)]


class _Args(BaseModel, frozen=True, extra="forbid"):
    needs: ClassVar[ToolAccess] = "read"


class Search(_Args, frozen=True):
    """Search stored playbooks by what you want to do. Gives ids, titles and how they went."""

    query: str
    category: _Name | None = None
    tags: tuple[_Name, ...] = ()
    limit: int | None = Field(default=None, ge=1, le=50)

    def run(self, library: Library, caller: ToolCaller) -> object:
        query = PlaybookQuery(
            text=self.query,
            limit=caller.options.limit if self.limit is None else self.limit,
            filter=caller.filter(category=self.category, tags=self.tags),
            max_distance=caller.options.max_distance,
        )
        found = library.search(query)
        return {"playbooks": [{**_summary(r.playbook), "score": r.score} for r in found]}


class Get(_Args, frozen=True):
    """Read one playbook in full, by its id or slug. Do this before you follow it."""

    id: _Name

    def run(self, library: Library, caller: ToolCaller) -> object:
        playbook = library.get(self.id)
        if playbook.status == "draft" and playbook.source != caller.source:
            raise EntryInvalid(f"playbook {self.id!r} is a draft that nobody has reviewed yet")
        if playbook.source != caller.source:  # a run gets no credit for its own playbook
            with write_transaction(library.engine) as connection:
                recall.mark_read(connection, caller.run_id, playbook)
        return playbook_json(playbook)


class Create(_Args, frozen=True):
    """Keep a new playbook, as a draft: a way of doing something that will be needed again."""

    needs: ClassVar[ToolAccess] = "draft"
    title: str = Field(description="A short name for what it handles.")
    use_case: str = Field(description="When to use it; it is found by title and use case.")
    process: str = Field(default="", description="What to do, as free text.")
    steps: tuple[PlaybookStep, ...] = ()
    notes: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()

    def run(self, library: Library, caller: ToolCaller) -> object:
        content = PlaybookContent(**dict(self), status="draft")
        _check_size(content)
        check = partial(count_write, run_id=caller.run_id, new=True)
        return playbook_json(library.create(content, source=caller.source, check=check))


class Update(_Args, frozen=True):
    """Change a draft that this run keeps. What you leave out stays; an empty text clears."""

    needs: ClassVar[ToolAccess] = "draft"
    id: _Name
    expected_version: _Version | None = Field(
        default=None, description="Refuse when somebody else changed it since this version."
    )
    title: str | None = None
    use_case: str | None = None
    process: str | None = None
    steps: tuple[PlaybookStep, ...] | None = None
    notes: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None

    def run(self, library: Library, caller: ToolCaller) -> object:
        changes = PlaybookChanges(**{name: getattr(self, name) for name in Create.model_fields})

        def check(connection: Connection) -> None:
            before = _own_draft(connection, self.id, caller)
            if before is not None:
                _check_size(changes.apply(before), before)
                count_write(connection, caller.run_id)

        expected, source = self.expected_version, caller.source
        return playbook_json(
            library.update(self.id, changes, expected_version=expected, source=source, check=check)
        )


class Delete(_Args, frozen=True):
    """Delete a draft that this run keeps. Says whether there was one."""

    needs: ClassVar[ToolAccess] = "draft"
    id: _Name

    def run(self, library: Library, caller: ToolCaller) -> object:
        def check(connection: Connection) -> None:
            if _own_draft(connection, self.id, caller) is not None:
                count_write(connection, caller.run_id)

        # The check runs in the transaction of the deletion, so no edit of a person comes in
        # between.
        return {"deleted": library.delete(self.id, check=check)}


class List(_Args, frozen=True):
    """List stored playbooks, the newest change first; `more` says how many are not listed."""

    category: _Name | None = None
    tags: tuple[_Name, ...] = ()

    def run(self, library: Library, caller: ToolCaller) -> object:
        where = caller.filter(category=self.category, tags=self.tags)
        with read_transaction(library.engine) as connection:
            found = store.list_all(connection, where, limit=MAX_LISTED)
            more = store.count_all(connection, where) - len(found)
        return {"playbooks": [_summary(playbook) for playbook in found], "more": more}


AnyArgs = Search | Get | Create | Update | Delete | List

_TOOLS: Mapping[str, type[AnyArgs]] = {
    "playbook_search": Search,
    "playbook_get": Get,
    "playbook_create": Create,
    "playbook_update": Update,
    "playbook_delete": Delete,
    "playbook_list": List,
}


def playbook_tools(access: ToolAccess = "draft") -> tuple[Tool, ...]:
    """Return the tools as models are offered them."""
    return tuple(_tool(name, args) for name, args in _allowed(access).items())


def run_playbook_tool(
    library: Library,
    call: ToolCall,
    *,
    run_id: str,
    access: ToolAccess = "draft",
    options: RecallOptions = DEFAULT_RECALL_OPTIONS,
) -> str:
    """Execute a tool call; return its answer as JSON, with a field `error` if it failed.

    Why the store does not answer is logged, not returned: models learn nothing of this host.
    """
    allowed = _allowed(access)
    caller = ToolCaller(run_id=run_id, access=access, options=options)
    args = allowed.get(call.name.replace(".", "_"))
    try:
        if args is None:
            raise EntryInvalid(f"no tool {call.name!r}; there are {', '.join(allowed)}")
        answer = args.model_validate_json(call.arguments or "{}").run(library, caller)
    except ValidationError as error:
        answer = {"error": f"bad arguments for {call.name}: {first_problem(error)}"}
    except (BadInput, StaleUpdate) as error:
        answer = {"error": str(error)}
    except Unavailable as error:
        _log.warning("run %s cannot use its playbook tools: %s", run_id, error)
        answer = {"error": STORE_UNAVAILABLE}
    return json.dumps(answer, ensure_ascii=False, default=str)


def count_write(connection: Connection, run_id: str, *, new: bool = False) -> None:
    """Count one write of a run, in the transaction of that write.

    Raises:
        EntryInvalid: the run has used up its writes.
    """
    columns = run_writes.c
    with suppress(IntegrityError), connection.begin_nested():  # the run has a row already
        connection.execute(insert(run_writes).values(run_id=run_id, writes=0, created=0))
    counted = connection.execute(
        update(run_writes)
        .where(
            columns.run_id == run_id,
            columns.writes < MAX_WRITES,
            columns.created + int(new) <= MAX_NEW_PLAYBOOKS,
        )
        .values(writes=columns.writes + 1, created=columns.created + int(new))
    )
    if not counted.rowcount:
        raise EntryInvalid(
            f"this run has used up its {MAX_WRITES} writes or {MAX_NEW_PLAYBOOKS} new playbooks. "
            "Say in your answer what else should be kept"
        )


def _check_size(content: PlaybookContent, before: PlaybookContent | None = None) -> None:
    size = content_length(content)
    if size > max(MAX_CHARACTERS, content_length(before) if before else 0):
        raise EntryInvalid(
            f"the playbook would have {size:,} characters; an agent may write {MAX_CHARACTERS:,}. "
            "Shorten it"
        )


def _allowed(access: ToolAccess) -> Mapping[str, type[AnyArgs]]:
    return {n: args for n, args in _TOOLS.items() if access == "draft" or args.needs == "read"}


def _own_draft(connection: Connection, ref: str, caller: ToolCaller) -> Playbook | None:
    """Return and lock a draft of this run; None if there is no such playbook."""
    found = store.find(connection, ref, lock=True)
    if found and (found.status, found.source) != ("draft", caller.source):
        raise EntryInvalid(
            f"playbook {ref!r} is not a draft of this run: only a person may change it. Create a "
            "new playbook with your version; a person will review it"
        )
    return found


def _summary(playbook: Playbook) -> dict[str, object]:
    return {
        "id": playbook.id,
        "title": playbook.title,
        "use_case": playbook.use_case,
        "status": playbook.status,
        "confidence": round(playbook.confidence, 2),
        "executions": playbook.counts.total,
    }


def _tool(name: str, args: type[_Args]) -> Tool:
    schema = args.model_json_schema()
    description = " ".join(str(schema.pop("description")).split())
    return Tool(name=name, description=description, parameters=schema)
