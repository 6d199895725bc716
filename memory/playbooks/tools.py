"""The playbook tools: what an agent may do with playbooks, and one call done."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from sqlalchemy import Connection

from contracts.errors import BadInput, Unavailable
from contracts.tool import Tool, ToolCall
from memory.around_run import RecallOptions
from memory.content import content_json, sanitize_text
from memory.database import read_transaction, write_transaction
from memory.errors import PlaybookInvalid, StaleUpdate
from memory.playbooks import recall
from memory.playbooks.changes import PlaybookChanges
from memory.playbooks.library import Library
from memory.playbooks.store import count_all, find, list_all
from memory.playbooks.write_quota import check_size, count_write
from memory.types import Playbook, PlaybookContent, PlaybookFilter, PlaybookQuery, PlaybookStep

MAX_LISTED = 200
"""Playbooks that one answer lists."""

STORE_UNAVAILABLE = "the playbooks cannot be reached now; go on without them"

DEFAULT_RECALL_OPTIONS = RecallOptions()

_log = logging.getLogger(__name__)

ToolAccess = Literal["read", "draft"]
"""What an agent may do: read; or also keep drafts, which no other run sees before a person made
them active."""

_RANKS: Mapping[ToolAccess, int] = {"read": 0, "draft": 1}


def _kept(text: str) -> str:
    if text != sanitize_text(text):
        raise ValueError("it holds a NUL byte or half a character")
    return text


@dataclass(frozen=True, kw_only=True)
class ToolCaller:
    """Whose agent calls, what it may do, and what it is shown where it does not say."""

    run_id: str
    access: ToolAccess
    options: RecallOptions

    @property
    def source(self) -> str:
        """What it writes is kept as of this source."""
        return f"run {self.run_id}"


_Name = Annotated[str, AfterValidator(_kept)]
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
        where = _open_to(caller, category=self.category, tags=self.tags)
        limit = caller.options.limit if self.limit is None else self.limit
        far = caller.options.max_distance
        hits = library.search(
            PlaybookQuery(text=self.query, limit=limit, filter=where, max_distance=far)
        )
        return {"playbooks": [{**_brief(h.playbook), "score": h.score} for h in hits]}


class Get(_Args, frozen=True):
    """Read one playbook in full, by its id or slug. Do this before you follow it."""

    id: _Name

    def run(self, library: Library, caller: ToolCaller) -> object:
        playbook = library.get(self.id)
        if playbook.status == "draft" and not _open_to(caller).matches("draft", playbook.source):
            raise PlaybookInvalid(f"playbook {self.id!r} is a draft that no person looked at yet")
        if playbook.source != caller.source:  # else a run would take credit for what it wrote
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
        given = {name: getattr(self, name) for name in type(self).model_fields}
        content = PlaybookContent(**given, status="draft")
        check_size(content)
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
            there = _writable(connection, self.id, caller)
            if there is not None:
                check_size(changes.apply(there), there)
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
            if _writable(connection, self.id, caller) is not None:
                count_write(connection, caller.run_id)

        return {"deleted": library.delete(self.id, check=check)}


class List(_Args, frozen=True):
    """List stored playbooks, the newest change first; `more` says how many are not listed."""

    category: _Name | None = None
    tags: tuple[_Name, ...] = ()

    def run(self, library: Library, caller: ToolCaller) -> object:
        where = _open_to(caller, category=self.category, tags=self.tags)
        with read_transaction(library.engine) as connection:
            found = list_all(connection, where, limit=MAX_LISTED)
            more = count_all(connection, where) - len(found)
        return {"playbooks": [_brief(playbook) for playbook in found], "more": more}


AnyArgs = Search | Get | Create | Update | Delete | List

_ARGS: Mapping[str, type[AnyArgs]] = {
    "playbook_search": Search,
    "playbook_get": Get,
    "playbook_create": Create,
    "playbook_update": Update,
    "playbook_delete": Delete,
    "playbook_list": List,
}


def playbook_tools(access: ToolAccess = "draft") -> tuple[Tool, ...]:
    """The tools as a model is told of them; providers refuse a dot in a name, so `_` stands."""
    return tuple(_tool(name, args) for name, args in _may(access).items())


def run_playbook_tool(
    library: Library,
    call: ToolCall,
    *,
    run_id: str,
    access: ToolAccess = "draft",
    options: RecallOptions = DEFAULT_RECALL_OPTIONS,
) -> str:
    """Do what the call asks and give JSON; what goes wrong is told to the model as `error`.

    When the store does not answer, the log says why: the model learns nothing of this host.
    """
    may = _may(access)
    caller = ToolCaller(run_id=run_id, access=access, options=options)
    args = may.get(call.name.replace(".", "_"))
    try:
        if args is None:
            raise PlaybookInvalid(f"no tool {call.name!r}; there are {', '.join(may)}")
        answer = args.model_validate_json(call.arguments or "{}").run(library, caller)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        answer = {"error": f"bad arguments for {call.name}: {place}: {first['msg']}"}
    except (BadInput, StaleUpdate) as error:
        answer = {"error": str(error)}
    except Unavailable as error:
        _log.warning("run %s cannot use its playbook tools: %s", run_id, error)
        answer = {"error": STORE_UNAVAILABLE}
    return json.dumps(answer, ensure_ascii=False, default=str)


def playbook_json(playbook: Playbook) -> dict[str, object]:
    """A playbook as JSON shows it."""
    return {
        "id": playbook.id,
        "slug": playbook.slug,
        "version": playbook.version,
        **content_json(playbook),
        "lessons": [lesson.text for lesson in playbook.lessons],
        "successes": playbook.counts.successes,
        "partials": playbook.counts.partials,
        "failures": playbook.counts.failures,
        "confidence": round(playbook.confidence, 4),
        "created_at": playbook.created_at.isoformat(),
        "updated_at": playbook.updated_at.isoformat(),
        "last_used_at": playbook.last_used_at and playbook.last_used_at.isoformat(),
        "source": playbook.source,
    }


def _may(access: ToolAccess) -> Mapping[str, type[AnyArgs]]:
    return {n: args for n, args in _ARGS.items() if _RANKS[args.needs] <= _RANKS[access]}


def _open_to(
    caller: ToolCaller, *, category: str | None = None, tags: tuple[str, ...] = ()
) -> PlaybookFilter:
    """Of drafts only a run's own: what another run kept could be meant to mislead this one."""
    return PlaybookFilter(category=category, tags=tags, drafts=False, own_source=caller.source)


def _writable(connection: Connection, ref: str, caller: ToolCaller) -> Playbook | None:
    """What this names, as it stays until the transaction ends; None when there is nothing.

    An agent changes and deletes nothing but drafts of its own run.
    """
    there = find(connection, ref, lock=True)
    if there and (there.status, there.source) != ("draft", caller.source):
        raise PlaybookInvalid(
            f"playbook {ref!r} is no draft of this run: only a person changes it. Keep your own "
            "version as a new playbook, it will be looked at"
        )
    return there


def _brief(playbook: Playbook) -> dict[str, object]:
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
