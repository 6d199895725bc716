"""The playbook tools: what an agent may do with playbooks, and one call done."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from contracts.errors import BadInput
from contracts.tool import Tool, ToolCall
from memory import recall
from memory.changes import Changes
from memory.content import content_json, storable
from memory.database import reading, writing
from memory.errors import PlaybookInvalid, StaleUpdate
from memory.library import Library
from memory.render import render_titles
from memory.store import by_id, find
from memory.types import Content, Filter, Playbook, Query, Step

SUGGESTIONS = 5
"""Titles that a prompt is given."""

NO_DRAFTS = Filter(drafts=False)

Access = Literal["read", "draft", "write"]
"""What an agent may do: read; also keep drafts, which no other run sees before a person made them
active; or change everything."""

_RANKS: Mapping[Access, int] = {"read": 0, "draft": 1, "write": 2}


def _kept(text: str) -> str:
    if text != storable(text):
        raise ValueError("it holds a NUL byte or half a character")
    return text


_Name = Annotated[str, AfterValidator(_kept)]
_Version = Annotated[int, Field(ge=0, le=1_000_000_000)]


class _Args(BaseModel, frozen=True, extra="forbid"):
    needs: ClassVar[Access] = "read"


class Search(_Args, frozen=True):
    """Search stored playbooks by what you want to do. Gives ids, titles and how they went."""

    query: str
    category: _Name | None = None
    tags: tuple[_Name, ...] = ()
    limit: int = Field(default=5, ge=1, le=50)

    def run(self, library: Library, run_id: str, access: Access) -> object:
        where = _open_to(run_id, access, category=self.category, tags=self.tags)
        hits = library.search(Query(text=self.query, limit=self.limit, filter=where))
        return {"playbooks": [{**_brief(h.playbook), "score": h.score} for h in hits]}


class Get(_Args, frozen=True):
    """Read one playbook in full, by its id or slug. Do this before you follow it."""

    id: _Name

    def run(self, library: Library, run_id: str, access: Access) -> object:
        playbook = library.get(self.id)
        if playbook.status == "draft" and not _open_to(run_id, access).takes(
            "draft", playbook.source
        ):
            raise PlaybookInvalid(f"playbook {self.id!r} is a draft that no person looked at yet")
        if playbook.source != _source(run_id):  # else a run would take credit for what it wrote
            with writing(library.engine) as connection:
                recall.read(connection, run_id, playbook)
        return full(playbook)


class Create(_Args, frozen=True):
    """Keep a new playbook: a way of doing something that will be needed again."""

    needs: ClassVar[Access] = "draft"
    title: str = Field(description="A short name for what it handles.")
    use_case: str = Field(description="When to use it; it is found by title and use case.")
    process: str = Field(default="", description="What to do, as free text.")
    steps: tuple[Step, ...] = ()
    notes: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()

    def run(self, library: Library, run_id: str, access: Access) -> object:
        given = {name: getattr(self, name) for name in type(self).model_fields}
        content = Content(**given, status="draft" if access == "draft" else "active")
        return full(library.create(content, source=_source(run_id)))


class Update(_Args, frozen=True):
    """Change a playbook. What you leave out stays; an empty text clears."""

    needs: ClassVar[Access] = "draft"
    id: _Name
    expected_version: _Version | None = Field(
        default=None, description="Refuse when somebody else changed it since this version."
    )
    title: str | None = None
    use_case: str | None = None
    process: str | None = None
    steps: tuple[Step, ...] | None = None
    notes: str | None = None
    category: str | None = None
    tags: tuple[str, ...] | None = None

    def run(self, library: Library, run_id: str, access: Access) -> object:
        _check_writable(library, self.id, run_id, access)
        given = {n: getattr(self, n) for n in Create.model_fields}
        expected = self.expected_version
        source = _source(run_id)
        return full(
            library.update(self.id, Changes(**given), expected_version=expected, source=source)
        )


class Delete(_Args, frozen=True):
    """Delete a playbook for good. Says whether there was one."""

    needs: ClassVar[Access] = "draft"
    id: _Name

    def run(self, library: Library, run_id: str, access: Access) -> object:
        _check_writable(library, self.id, run_id, access)
        return {"deleted": library.delete(self.id)}


class List(_Args, frozen=True):
    """List stored playbooks, the newest change first."""

    category: _Name | None = None
    tags: tuple[_Name, ...] = ()

    def run(self, library: Library, run_id: str, access: Access) -> object:
        where = _open_to(run_id, access, category=self.category, tags=self.tags)
        found = library.list(where, limit=200)
        return {"playbooks": [_brief(playbook) for playbook in found]}


AnyArgs = Search | Get | Create | Update | Delete | List

_ARGS: Mapping[str, type[AnyArgs]] = {
    "playbook_search": Search,
    "playbook_get": Get,
    "playbook_create": Create,
    "playbook_update": Update,
    "playbook_delete": Delete,
    "playbook_list": List,
}


def playbook_tools(access: Access = "write") -> tuple[Tool, ...]:
    """The tools as a model is told of them; providers refuse a dot in a name, so `_` stands."""
    return tuple(_tool(name, args) for name, args in _may(access).items())


def run_playbook_tool(
    library: Library, call: ToolCall, *, run_id: str, access: Access = "write"
) -> str:
    """Do what the call asks and give JSON; what goes wrong is told to the model as `error`.

    Raises:
        Unavailable: the store does not answer.
    """
    may = _may(access)
    args = may.get(call.name.replace(".", "_"))
    try:
        if args is None:
            raise PlaybookInvalid(f"no tool {call.name!r}; there are {', '.join(may)}")
        answer = args.model_validate_json(call.arguments or "{}").run(library, run_id, access)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        answer = {"error": f"bad arguments for {call.name}: {place}: {first['msg']}"}
    except (BadInput, StaleUpdate) as error:
        answer = {"error": str(error)}
    return json.dumps(answer, ensure_ascii=False, default=str)


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """What was found for one prompt."""

    prompt_id: str
    ids: tuple[str, ...]


def suggest(
    library: Library,
    *,
    prompt_id: str,
    prompt: str,
    last: Suggested | None = None,
    access: Access = "write",
) -> tuple[str, Suggested]:
    """The titles block for a prompt. Searched once a prompt: hand `last` back at each model call.

    Drafts are left out, and playbooks that are gone or archived by now, also of what was found
    before.
    """
    if last is None or last.prompt_id != prompt_id:
        hits = library.search(Query(text=prompt, limit=SUGGESTIONS, filter=NO_DRAFTS))
        last = Suggested(prompt_id=prompt_id, ids=tuple(hit.playbook.id for hit in hits))
    with reading(library.engine) as connection:
        there = by_id(connection, last.ids)
    live = [there[id_] for id_ in last.ids if id_ in there and there[id_].status == "active"]
    return render_titles(live, _may(access)), last


def full(playbook: Playbook) -> dict[str, object]:
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


def _may(access: Access) -> Mapping[str, type[AnyArgs]]:
    return {n: args for n, args in _ARGS.items() if _RANKS[args.needs] <= _RANKS[access]}


def _source(run_id: str) -> str:
    return f"run {run_id}"


def _open_to(
    run_id: str, access: Access, *, category: str | None = None, tags: tuple[str, ...] = ()
) -> Filter:
    """Of drafts only a run's own: what another run kept could be meant to mislead this one."""
    return Filter(category=category, tags=tags, drafts=access == "write", own=_source(run_id))


def _check_writable(library: Library, ref: str, run_id: str, access: Access) -> None:
    """Whoever may only keep drafts may change and delete nothing but drafts of their own run."""
    with reading(library.engine) as connection:
        there = find(connection, ref)
    if access == "write" or there is None:
        return
    if (there.status, there.source) != ("draft", _source(run_id)):
        raise PlaybookInvalid(
            f"playbook {ref!r} is no draft of this run: only a person changes it. Keep your own "
            "version as a new playbook, it will be looked at"
        )


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
