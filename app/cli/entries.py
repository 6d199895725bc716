"""Commands and options that `harness notes` and `harness examples` share."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from app.terminal.editor import edit_text, save_if_rejected
from app.terminal.files import read_file
from app.terminal.identity import user_name
from app.terminal.options import MAX_ROWS, AsJson, resolve_run_id
from app.terminal.output import print_json, print_line, print_result, print_table
from contracts.errors import OptionInvalid
from flows.config.settings import load_settings
from flows.recall.library import configured_notebook
from flows.runs.runs import find_run
from memory.errors import EntryInvalid, StaleUpdate
from memory.notes.content import (
    BASE_TYPES,
    ENTRY_STATUSES,
    editable_json,
    effective_status,
    entry_json,
    kind_of,
    match_word,
    parse_edited_json,
    searchable_text,
)
from memory.notes.notebook import Notebook
from memory.notes.types import (
    Author,
    Entry,
    EntryContent,
    EntryFields,
    EntryFilter,
    EntryKind,
    Example,
    Note,
)
from memory.scope import Scope, scope_label
from nodes.text import escape_invisible, strip_control_characters

E = TypeVar("E", Note, Example)

Ref = Annotated[str, typer.Argument(help="An id, or the beginning of one.")]
Agent = Annotated[str | None, typer.Option(help="Only for this agent.")]
User = Annotated[str | None, typer.Option(help="Only for this user.")]
Company = Annotated[str | None, typer.Option(help="Only for this company.")]
Pending = Annotated[bool, typer.Option("--pending", help="Use it only after an approval.")]
Days = Annotated[
    float | None,
    typer.Option("--provisional", metavar="DAYS", min=0.001, help="Expire after so many days."),
]
Protected = Annotated[
    bool | None, typer.Option("--protected/--unprotected", help="Only a person may revoke it.")
]
File = Annotated[
    Path | None, typer.Option(help="JSON file with new content; missing fields stay unchanged.")
]
Version = Annotated[
    int | None, typer.Option(help="Refuse the change if the entry has another version.")
]
Undo = Annotated[bool, typer.Option("--undo", help="Undo the last change.")]
StatusFilter = Annotated[str | None, typer.Option(help="Pending, Active or Revoked.")]
ContainsText = Annotated[str, typer.Option(help="Only entries with all of these words.")]
FromRun = Annotated[str | None, typer.Option(help="Only entries from this run.")]
Limit = Annotated[int | None, typer.Option(min=0, max=MAX_ROWS, help="Maximum of entries.")]


def add_shared_commands(app: typer.Typer, kind: EntryKind) -> None:
    """Add the commands that are the same for notes and examples."""
    one = typer.Argument(metavar=kind.upper(), help="An id, or the beginning of one.")
    several = typer.Argument(metavar=kind.upper(), help="Ids, or beginnings of ids.")

    @app.command("show", help=f"Show one {kind}.")
    def show(
        entry: Annotated[str, one],
        history: Annotated[bool, typer.Option("--history", help="Show all versions.")] = False,
        as_json: AsJson = False,
    ) -> None:
        _show(kind, entry, history=history, as_json=as_json)

    @app.command("approve", help=f"Make {kind}s Active, so that agents get them.")
    def approve(refs: Annotated[list[str], several], as_json: AsJson = False) -> None:
        change_entries(kind, refs, Notebook.approve, "approved", as_json)

    @app.command("revoke", help=f"Stop giving {kind}s to agents, without deleting them.")
    def revoke(refs: Annotated[list[str], several], as_json: AsJson = False) -> None:
        change_entries(kind, refs, Notebook.revoke, "revoked", as_json)

    @app.command("rm", help=f"Delete {kind}s and their history.")
    def rm(refs: Annotated[list[str], several], as_json: AsJson = False) -> None:
        def remove(book: Notebook, ref: str, author: Author) -> Entry:
            del author
            return book.remove(ref)

        change_entries(kind, refs, remove, "deleted", as_json)


def new_entry_fields(
    agent: str | None,
    user: str | None,
    company: str | None,
    *,
    pending: bool,
    days: float | None,
    protected: bool | None,
) -> EntryFields:
    """Return the scope, status, expiry and protection of a new entry.

    Raises:
        OptionInvalid: a scope option is empty, for example because a shell variable is not set.
    """
    for name, value in (("agent", agent), ("user", user), ("company", company)):
        if value is not None and not value.strip():
            raise OptionInvalid(f"--{name} is empty: omit it if this applies to every {name}")
    return EntryFields(
        scope=Scope(agent=agent, user=user, company=company),
        status="Pending" if pending else "Active",
        expires_at=_expiry(days),
        protection="Protected" if protected else "Normal",
    )


def with_options(
    entry: E,
    agent: str | None,
    user: str | None,
    company: str | None,
    *,
    days: float | None,
    protected: bool | None,
) -> E:
    """Return the entry with the given options; None changes nothing, an empty scope clears it."""
    options = {"agent": agent, "user": user, "company": company}
    scope = {name: value or None for name, value in options.items() if value is not None}
    changed = replace(entry, scope=replace(entry.scope, **scope))
    if days is not None:
        changed = replace(changed, expires_at=_expiry(days))
    if protected is not None:
        changed = replace(changed, protection="Protected" if protected else "Normal")
    return changed


def list_entries(
    kind: EntryKind,
    *,
    status: str | None,
    agent: str | None,
    user: str | None,
    company: str | None,
    text: str,
    run: str | None,
    limit: int | None,
    type_: str | None = None,
    note_type: str | None = None,
    best: bool = False,
    as_json: bool,
) -> None:
    """Print the entries that match.

    Raises:
        OptionInvalid, AgentUnknown, EntryInvalid, RunNotFound: a filter matches nothing because
            its value does not exist.
    """
    for name, value in (("user", user), ("company", company)):
        if value is not None and not value.strip():
            raise OptionInvalid(f"--{name} is empty: omit it to list entries of every {name}")
    where = EntryFilter(
        status=match_word("status", status, ENTRY_STATUSES) if status else None,
        type=match_word("type", type_, BASE_TYPES) if type_ else None,
        note_type=note_type,
        agent=agent,
        user=user,
        company=company,
        text=text,
        source_run=resolve_run_id(run),
        sort="score" if best else "updated",
        limit=limit,
    )
    with configured_notebook() as book:
        found = book.list(kind, where)
        if not found:
            _check_names(book, where)
    if as_json:
        print_json([entry_json(entry) for entry in found])
    elif found:
        column = "type" if kind == "note" else "score"
        rows = [
            (
                entry.id[:8],
                _status(entry),
                entry.note_type if isinstance(entry, Note) else str(entry.score),
                scope_label(entry.scope),
                " ".join(strip_control_characters(searchable_text(entry)).split())[:60],
            )
            for entry in found
        ]
        print_table((kind, "status", column, "for", "text"), rows)
        for entry in found:
            if entry.status == "Pending" and entry.evidence:
                quote = escape_invisible(" ".join(entry.evidence.split()))[:200]
                print_line(f"evidence of {entry.id[:8]}, run {entry.source_run}: {quote!r}")
    elif replace(where, sort=EntryFilter.sort) != EntryFilter():
        print_line(f"no {kind} matches")
    else:
        print_line(f"no {kind}s: add one with `harness {kind}s add …`")


def change_entries(
    kind: EntryKind,
    refs: Sequence[str],
    change: Callable[..., Entry],
    word: str,
    as_json: bool,
) -> None:
    """Apply a method of the notebook to each entry, after checking that all of them exist."""
    with configured_notebook() as book:
        found = [book.get(ref, kind).id for ref in refs]
        changed = [change(book, ref, author=current_author()) for ref in found]
    line = "\n".join(f"{word} {entry.id}" for entry in changed)
    print_result([entry_json(entry) for entry in changed], line, as_json)


def edit_entry(
    kind: EntryKind,
    ref: str,
    change: Callable[[Notebook, Entry], EntryContent | None],
    *,
    file: Path | None,
    version: int | None,
    undo: bool,
    as_json: bool,
) -> None:
    """Change one entry by its options, a JSON file or $EDITOR; or undo its last change.

    A text that comes too late, because somebody else changed the entry, is saved in the home.
    """
    if undo:
        change_entries(kind, [ref], Notebook.undo, "undid", as_json)
        return
    with configured_notebook() as book:
        before = book.get(ref, kind)
        if file is not None:
            content: EntryContent | None = parse_edited_json(read_file(file), kind, before)
        else:
            content = change(book, before)
        if content is None:
            after = _edit_in_editor(book, before, version)
        else:
            after = _save(book, _with_content(before, content, version))
    print_entry(after or before, "changed" if after else "unchanged:", as_json)


def print_entry(entry: Entry, word: str, as_json: bool) -> None:
    """Print the entry after a change."""
    facts = f"{_status(entry)}, version {entry.version}, for {scope_label(entry.scope)}"
    print_result(entry_json(entry), f"{word} {kind_of(entry)} {entry.id} ({facts})", as_json)


def current_author() -> Author:
    """Return the user at this terminal as the author of a change."""
    return Author("person", user_name())


def _check_names(book: Notebook, where: EntryFilter) -> None:
    if where.agent is not None:
        book.agent_settings(where.agent)
    names = [one.name for one in book.types.list()]
    if where.note_type is not None and where.note_type.lower() not in map(str.lower, names):
        raise EntryInvalid(f"no note type {where.note_type!r}; note types: {', '.join(names)}")
    if where.source_run is not None:
        find_run(load_settings().runs, where.source_run)


def _show(kind: EntryKind, ref: str, *, history: bool, as_json: bool) -> None:
    with configured_notebook() as book:
        entry = book.get(ref, kind)
        versions = book.history(entry.id) if history else []
        number = book.runs.count_runs_with(entry.id)
    if as_json:
        document = {**entry_json(entry), "runs_given": number}
        past = {"history": [asdict(version) for version in versions]} if history else {}
        print_json(document | past)
        return
    for line in (*_facts(entry), f"used in {number} runs"):
        print_line(escape_invisible(line))
    for version in versions:
        when = f"{version.at:%Y-%m-%d %H:%M}"
        source = escape_invisible(version.source)
        print_line(f"version {version.version}, {when}, by {source}")


def _edit_in_editor(book: Notebook, before: Entry, version: int | None) -> Entry | None:
    text = edit_text(editable_json(before), name=f"{kind_of(before)}.json")
    if text is None:
        return None
    with _saved_if_rejected(text, _with_content(before, before, version)):
        content = parse_edited_json(text, kind_of(before), before)
        return book.edit(_with_content(before, content, version), author=current_author())


def _save(book: Notebook, wanted: Entry) -> Entry:
    try:
        return book.edit(wanted, author=current_author())
    except StaleUpdate:
        with _saved_if_rejected(editable_json(wanted), wanted):
            raise


def _saved_if_rejected(text: str, entry: Entry) -> AbstractContextManager[None]:
    name = f"{entry.id}-from-version-{entry.version}.json"
    hint = f"`harness {kind_of(entry)}s edit {entry.id} --file` reads it"
    return save_if_rejected(text, name, hint)


def _with_content(before: Entry, content: EntryContent, version: int | None) -> Entry:
    names = [name for name in type(content).__dataclass_fields__ if hasattr(before, name)]
    fields = {name: getattr(content, name) for name in names}
    return replace(before, **{**fields, "version": version or before.version})


def _facts(entry: Entry) -> list[str]:
    detail = f"[{entry.note_type}]" if isinstance(entry, Note) else f"[score {entry.score}]"
    lines = [f"{kind_of(entry)} {entry.id}, version {entry.version}: {_status(entry)} {detail}"]
    lines.append(f"for {scope_label(entry.scope)}; {entry.protection}")
    lines.append(f"by {entry.author.kind} {entry.author.name}, {entry.created_at:%Y-%m-%d %H:%M}")
    if entry.source_run:
        lines.append(f"from run {entry.source_run}, confidence {entry.confidence}")
    if entry.author.kind != "person":
        lines.append(f"evidence: {entry.evidence or 'no literal quote from the run'}")
    if entry.expires_at:
        lines.append(f"expires {entry.expires_at:%Y-%m-%d %H:%M}")
    lines += [f"{flag.kind} {flag.other}: {flag.why}" for flag in entry.flags]
    if isinstance(entry, Note):
        return [*lines, "", entry.text]
    return [*lines, "", "input:", entry.input, "", "output:", entry.output]


def _status(entry: Entry) -> str:
    return effective_status(entry, datetime.now(UTC))


def _expiry(days: float | None) -> datetime | None:
    try:
        return None if days is None else datetime.now(UTC) + timedelta(days=days)
    except OverflowError as error:
        raise OptionInvalid(f"--provisional {days:g} days: the date is out of range") from error
