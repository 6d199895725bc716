"""What `harness notes` and `harness examples` share: lists, approval, editing."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.editor import edit_text, save_if_rejected
from app.terminal.identity import user_name
from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_result
from app.terminal.present import print_table
from contracts.errors import OptionInvalid

if TYPE_CHECKING:
    from memory.notes.notebook import Notebook
    from memory.notes.types import Author, Entry, EntryContent, EntryFilter, EntryKind

Change = Callable[["Notebook", str, "Author"], "Entry"]


def entry_commands(app: typer.Typer, kind: "EntryKind") -> None:
    """Give notes or examples the commands that they have in common."""
    one = typer.Argument(metavar=kind.upper(), help="An id, or the beginning of one.")
    some = typer.Argument(metavar=kind.upper(), help="Ids, or the beginnings of some.")

    @app.command("show", help=f"Show one {kind}.")
    def show_(
        entry: Annotated[str, one],
        history: Annotated[bool, typer.Option("--history", help="Every version.")] = False,
        as_json: AsJson = False,
    ) -> None:
        show_entry(kind, entry, history, as_json)

    @app.command("approve", help=f"Make {kind}s Active: agents are given them from now on.")
    def approve(refs: Annotated[list[str], some], as_json: AsJson = False) -> None:
        change_entries(
            kind, refs, lambda b, ref, by: b.approve(ref, author=by), "approved", as_json
        )

    @app.command("revoke", help=f"Give {kind}s to nobody any more; they stay to be looked at.")
    def revoke(refs: Annotated[list[str], some], as_json: AsJson = False) -> None:
        change_entries(kind, refs, lambda b, ref, by: b.revoke(ref, author=by), "revoked", as_json)

    @app.command("rm", help=f"Delete {kind}s for good, with their history.")
    def rm(refs: Annotated[list[str], some], as_json: AsJson = False) -> None:
        change_entries(kind, refs, lambda b, ref, _: b.remove(ref), "deleted", as_json)


def current_author() -> "Author":
    """The person at this terminal."""
    from memory.notes.types import Author

    return Author("person", user_name())


def undo_last(kind: "EntryKind", ref: str, as_json: bool) -> None:
    """Take the last change of one back."""
    change_entries(kind, [ref], lambda book, one, by: book.undo(one, author=by), "undid", as_json)


def print_entry(entry: "Entry", word: str, as_json: bool) -> None:
    """One note or example that was just changed."""
    from memory.notes.content import entry_json, kind_of
    from memory.scope import scope_label

    known = f"{_state(entry)}, version {entry.version}, for {scope_label(entry.scope)}"
    print_result(entry_json(entry), f"{word} {kind_of(entry)} {entry.id} ({known})", as_json)


def list_entries(kind: "EntryKind", where: "EntryFilter", as_json: bool) -> None:
    """Print a list.

    Raises:
        OptionInvalid, AgentUnknown, NoteInvalid, RunNotFound: a filter names what there is not.
    """
    from flows.recall.library import configured_notebook
    from memory.notes.content import entry_json
    from memory.notes.types import EntryFilter, Note
    from memory.scope import scope_label

    for name, value in (("user", where.user), ("company", where.company)):
        if value is not None and not value.strip():
            raise OptionInvalid(f"--{name} is empty: leave it out to list those for any {name}")
    with configured_notebook() as book:
        found = book.list(kind, where)
        if not found:
            _check_names(book, where)
    if as_json:
        print_json([entry_json(entry) for entry in found])
        return
    if not found:
        narrowed = replace(where, sort=EntryFilter.sort) != EntryFilter()
        print_line(
            f"no {kind} matches" if narrowed else f"no {kind}s: `harness {kind}s add …` keeps one"
        )
        return
    rows = [
        (
            entry.id[:8],
            _state(entry),
            entry.note_type if isinstance(entry, Note) else str(entry.score),
            scope_label(entry.scope),
            _short(entry),
        )
        for entry in found
    ]
    print_table((kind, "status", "type" if kind == "note" else "score", "for", "text"), rows)


def _check_names(book: "Notebook", where: "EntryFilter") -> None:
    """Refuse a filter that nothing could pass, for it names no agent, note type or run.

    Raises:
        AgentUnknown, NoteInvalid, RunNotFound.
    """
    from flows.config.settings import load_settings
    from flows.runs.runs import find_run
    from memory.errors import NoteInvalid

    if where.agent is not None:
        book.agent_settings(where.agent)
    names = [one.name for one in book.types.list()]
    if where.note_type is not None and where.note_type.lower() not in map(str.lower, names):
        raise NoteInvalid(f"no note type {where.note_type!r}; there are {', '.join(names)}")
    if where.source_run is not None:
        find_run(load_settings().runs, where.source_run)


def show_entry(kind: "EntryKind", ref: str, history: bool, as_json: bool) -> None:
    """Print one note or example, and what should be seen beside it."""
    from flows.recall.library import configured_notebook
    from memory.notes.content import entry_json

    with configured_notebook() as book:
        entry = book.get(ref, kind)
        versions = book.history(entry.id) if history else []
        given = book.runs.count_runs_with(entry.id)
    if as_json:
        past = [asdict(version) for version in versions]
        told = {**entry_json(entry), "runs_given": given}
        print_json(told | ({"history": past} if history else {}))
        return
    from nodes.text import escape_invisible

    for line in (*_facts(entry), f"given to {given} runs"):
        print_line(escape_invisible(line))
    for version in versions:
        print_line(
            f"version {version.version}, {version.at:%Y-%m-%d %H:%M}, by {version.author.kind}"
        )


def change_entries(
    kind: "EntryKind", refs: Sequence[str], change: Change, word: str, json_: bool
) -> None:
    """Do the same to each; all must be there before any is changed."""
    from flows.recall.library import configured_notebook
    from memory.notes.content import entry_json

    with configured_notebook() as book:
        found = [book.get(ref, kind).id for ref in refs]
        after = [change(book, ref, current_author()) for ref in found]
    line = "\n".join(f"{word} {entry.id}" for entry in after)
    print_result([entry_json(entry) for entry in after], line, json_)


def edit_entry(
    kind: "EntryKind",
    ref: str,
    change: Callable[["Notebook", "Entry"], "EntryContent | None"],
    version: int | None,
    as_json: bool,
) -> None:
    """Change one; without anything to change, in $EDITOR. No text of a late comer is lost."""
    from flows.recall.library import configured_notebook

    with configured_notebook() as book:
        before = book.get(ref, kind)
        wanted = change(book, before)
        if wanted is None:
            after = _edited(book, before, version)
        else:
            after = _changed(book, _with(before, wanted, version))
    print_entry(after or before, "changed" if after else "unchanged:", as_json)


def _edited(book: "Notebook", before: "Entry", version: int | None) -> "Entry | None":
    from memory.notes.content import editable_json, kind_of, parse_edited_json

    text = edit_text(editable_json(before), name=f"{kind_of(before)}.json")
    if text is None:
        return None
    with _kept(text, _with(before, before, version)):
        wanted = _with(before, parse_edited_json(text, kind_of(before), before), version)
        return book.edit(wanted, author=current_author())


def _changed(book: "Notebook", wanted: "Entry") -> "Entry":
    from memory.errors import StaleUpdate
    from memory.notes.content import editable_json

    try:
        return book.edit(wanted, author=current_author())
    except StaleUpdate:
        with _kept(editable_json(wanted), wanted):
            raise


def _kept(text: str, entry: "Entry") -> "AbstractContextManager[None]":
    from memory.notes.content import kind_of

    name = f"{entry.id}-from-version-{entry.version}.json"
    taken = f"`harness {kind_of(entry)}s edit {entry.id} --file` takes it"
    return save_if_rejected(text, name, taken)


def _with(before: "Entry", wanted: "EntryContent", version: int | None) -> "Entry":
    names = [name for name in type(wanted).__dataclass_fields__ if hasattr(before, name)]
    fields = {name: getattr(wanted, name) for name in names}
    return replace(before, **{**fields, "version": version or before.version})


def _facts(entry: "Entry") -> list[str]:
    from memory.notes.content import kind_of
    from memory.notes.types import Note
    from memory.scope import scope_label

    what = f"[{entry.note_type}]" if isinstance(entry, Note) else f"[score {entry.score}]"
    lines = [f"{kind_of(entry)} {entry.id}, version {entry.version}: {_state(entry)} {what}"]
    lines.append(f"for {scope_label(entry.scope)}; {entry.protection}")
    lines.append(f"by {entry.author.kind} {entry.author.name}, {entry.created_at:%Y-%m-%d %H:%M}")
    if entry.source_run:
        lines.append(f"from run {entry.source_run}, confidence {entry.confidence}")
    if entry.expires_at:
        lines.append(f"provisional until {entry.expires_at:%Y-%m-%d %H:%M}")
    lines += [f"{flag.kind} {flag.other}: {flag.why}" for flag in entry.flags]
    if isinstance(entry, Note):
        return [*lines, "", entry.text]
    return [*lines, "", "asked:", entry.input, "", "answered:", entry.output]


def _state(entry: "Entry") -> str:
    from memory.notes.content import effective_status

    return effective_status(entry, datetime.now(UTC))


def _short(entry: "Entry") -> str:
    from memory.notes.content import searchable_text
    from nodes.text import strip_control_characters

    return " ".join(strip_control_characters(searchable_text(entry)).split())[:60]
