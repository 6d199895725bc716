"""`harness memory`: add, find, show, edit and delete playbooks."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import memory_maintenance
from app.terminal.editor import edit_text, save_if_rejected
from app.terminal.files import read_file
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import print_json, print_line, print_result, print_table
from contracts.errors import OptionInvalid
from flows.config.memory import load_memory_settings
from flows.recall.library import configured_library, download_local_model, write_memory_table
from memory.content import (
    parse_changes,
    parse_content,
    parse_json,
    playbook_json,
    playbook_to_json,
    playbook_to_text,
)
from memory.errors import EntryNotFound
from memory.playbooks.render import render_playbooks
from memory.types import (
    Lesson,
    Playbook,
    PlaybookChanges,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookStatus,
    PlaybookStep,
    SearchResult,
)
from nodes.text import escape_invisible

Ref = Annotated[str, typer.Argument(help="The id or slug of a playbook.")]
Category = Annotated[str | None, typer.Option(help="Only playbooks of this category.")]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only playbooks with this tag; repeatable.")
]
Archived = Annotated[bool, typer.Option("--archived", help="Include archived playbooks.")]
Provider = Literal["local", "google", "openai", "ollama", "litellm", "none"]

app = typer.Typer(no_args_is_help=True)
app.add_typer(memory_maintenance.app)


@app.command("init")
def init(
    provider: Annotated[Provider, typer.Option(help="Provider of the embedding model.")] = "local",
    model: Annotated[
        str, typer.Option(help="Embedding model, instead of the provider's default.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the table [memory] of harness.toml; download the local embedding model."""
    path = write_memory_table(provider, model=model, force=force)
    if provider == "local":
        download_local_model()
    print_result({"config": str(path), "provider": provider}, f"wrote [memory] to {path}", as_json)


@app.command("add")
def add(
    title: Annotated[str, typer.Argument(help="Short name of the task.")] = "",
    use_case: Annotated[str, typer.Option(help="When to use the playbook.")] = "",
    process: Annotated[str, typer.Option(help="What to do, as free text.")] = "",
    step: Annotated[list[str] | None, typer.Option(help="One step; repeatable.")] = None,
    notes: Annotated[str, typer.Option(help="Unconfirmed observations.")] = "",
    category: Annotated[str, typer.Option(help="Category, one word.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Tag; repeatable.")] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Add it as a draft, which runs are not shown.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option(help="JSON file with the playbook; - reads stdin.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a playbook."""
    if file is not None:
        document = parse_json(read_file(file))
    else:
        document = {
            "title": title,
            "use_case": use_case,
            "process": process,
            "steps": [{"action": action} for action in step or ()],
            "notes": notes,
            "category": category,
            "tags": tag or [],
            "status": "draft" if draft else "active",
        }
    with configured_library() as library:
        made = library.create(parse_content(document))
    print_result(playbook_json(made), f"added {made.slug} ({made.id})", as_json)


@app.command("list")
def list_(
    category: Category = None,
    tags: Tags = None,
    archived: Archived = False,
    limit: Annotated[
        int | None, typer.Option(min=0, max=MAX_ROWS, help="Maximum of playbooks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List playbooks, the last changed first."""
    where = PlaybookFilter(category=category, tags=tuple(tags or ()), archived=archived)
    with configured_library() as library:
        found = library.list(where, limit=limit)
        known = library.stats().by_category if category is not None and not found else {}
    if as_json:
        print_json([playbook_json(playbook) for playbook in found])
    elif found:
        rows = [
            (
                one.slug,
                one.status,
                f"{one.confidence:.0%}",
                str(one.counts.total),
                escape_invisible(one.category),
            )
            for one in found
        ]
        print_table(("playbook", "status", "confidence", "executions", "category"), rows)
    elif category is not None and category not in known:
        names = ", ".join(name for name in known if name) or "none"
        print_line(
            escape_invisible(f"no playbook has the category {category!r}; categories: {names}")
        )
    elif category is not None or tags or limit == 0:
        print_line("no playbook matches")
    else:
        print_line("no playbooks: add one with `harness memory add TITLE --use-case …`")


@app.command("show")
def show(
    playbook: Ref,
    history: Annotated[bool, typer.Option("--history", help="Show all versions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one playbook."""
    with configured_library() as library:
        found = library.get(playbook)
        versions = library.history(playbook) if history else []
    if as_json:
        past = [asdict(version) for version in versions]
        print_json({**playbook_json(found), **({"history": past} if history else {})})
        return
    print_line(escape_invisible(playbook_to_text(found)))
    for version in versions:
        source = escape_invisible(version.source)
        print_line(f"version {version.version}, {version.at:%Y-%m-%d %H:%M}, by {source}")


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(help="Description of your task.")],
    category: Category = None,
    tags: Tags = None,
    archived: Archived = False,
    limit: Annotated[
        int | None, typer.Option(min=0, max=MAX_ROWS, help="Maximum of playbooks; default 10.")
    ] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Minimum score.")] = 0.0,
    max_distance: Annotated[
        float | None,
        typer.Option(
            min=0, max=2, help="Maximum cosine distance; the default depends on the model."
        ),
    ] = None,
    confidence_weight: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Weight of confidence against relevance; default 0."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the rank and score of each search method.")
    ] = False,
    context: Annotated[
        bool, typer.Option("--context", help="Print the text that a run's prompt would get.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find playbooks for a task."""
    if not text.strip():
        raise OptionInvalid("the text to search for is empty: describe your task")
    settings = load_memory_settings()
    defaults = settings.surfacing if context else PlaybookQuery(text=text)
    query = PlaybookQuery(
        text=text,
        limit=defaults.limit if limit is None else limit,
        filter=PlaybookFilter(
            category=category, tags=tuple(tags or ()), archived=archived, drafts=not context
        ),
        min_score=min_score,
        max_distance=defaults.max_distance if max_distance is None else max_distance,
        confidence_weight=(
            defaults.confidence_weight if confidence_weight is None else confidence_weight
        ),
        optimistic=context,
    )
    with configured_library(single_search=True) as library:
        if context:
            groups = library.search_with_context(query, settings.contrast)
            shown = render_playbooks(groups, budget_tokens=settings.budget_tokens).text
            nothing = "nothing relevant: a run with this task is given no playbook"
            if groups.hits and not shown:
                nothing = f"nothing fits the budget of {settings.budget_tokens} tokens"
            text = shown if groups.hits else ""
            print_result({"context": text}, text or nothing, as_json)
            return
        results = library.search(query)
    if as_json:
        print_json([_result_json(result) for result in results])
        return
    if not results:
        print_line(f"nothing found for {text!r}")
    for result in results:
        print_line(_result_line(result))
        if explain:
            ranks = result.arm_ranks.items()
            details = (f"{arm}: rank {at.rank}, {at.score:.3f}" for arm, at in ranks)
            print_line(f"       {', '.join(details)}")


@app.command("edit")
def edit(
    playbook: Ref,
    title: Annotated[str | None, typer.Option(help="New title.")] = None,
    use_case: Annotated[str | None, typer.Option(help="When to use the playbook.")] = None,
    process: Annotated[str | None, typer.Option(help="What to do, as free text.")] = None,
    step: Annotated[
        list[str] | None, typer.Option(help="One step, instead of the old ones; repeatable.")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="Unconfirmed observations.")] = None,
    category: Annotated[str | None, typer.Option(help="Category, one word.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Tag, instead of the old ones; repeatable.")
    ] = None,
    status: Annotated[PlaybookStatus | None, typer.Option(help="New status.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="JSON file with the whole playbook; - reads stdin.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Refuse the change if the playbook has another version.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last change.")] = False,
    to: Annotated[
        int | None, typer.Option(help="With --undo: undo all changes since this version.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a playbook by options, by a file or in $EDITOR; or undo changes."""
    if to is not None and not undo:
        raise OptionInvalid("--to needs --undo: give both")
    options = PlaybookChanges(
        title=title,
        use_case=use_case,
        process=process,
        steps=tuple(PlaybookStep(action=action) for action in step) if step else None,
        notes=notes,
        category=category,
        tags=tuple(tag) if tag else None,
        status=status,
    )
    by_options = options != PlaybookChanges()
    if (file is not None) + by_options + undo > 1:
        raise OptionInvalid("a change comes from options, from --file or from --undo: give one")
    with configured_library() as library:
        if undo:
            after = library.undo(playbook, to=to, expected_version=version)
        elif file is not None or by_options:
            changes = options if file is None else parse_changes(read_file(file))
            after = library.update(playbook, changes, expected_version=version)
        else:
            before = library.get(playbook)
            text = edit_text(playbook_to_json(before))
            if text is None:
                print_result(playbook_json(before), f"{before.slug} is unchanged", as_json)
                return
            with save_if_rejected(text, f"{before.slug}-from-version-{before.version}.json"):
                changes = parse_changes(text)
                after = library.update(before.id, changes, expected_version=before.version)
    print_result(playbook_json(after), f"{after.slug} is at version {after.version}", as_json)


@app.command("forget")
def forget(
    playbook: Ref,
    numbers: Annotated[
        list[int], typer.Argument(metavar="LESSON…", help="Numbers that `memory show` prints.")
    ],
    as_json: AsJson = False,
) -> None:
    """Remove lessons of a playbook that have turned out to be wrong."""

    def choose(found: Playbook) -> list[Lesson]:
        known = dict(enumerate(found.lessons, 1))
        for number in numbers:
            if number not in known:
                raise OptionInvalid(
                    f"{found.slug} has no lesson {number}: `harness memory show {found.slug}` "
                    f"numbers its {len(known)}"
                )
        chosen.extend(known[number] for number in dict.fromkeys(numbers))
        return chosen

    chosen: list[Lesson] = []
    with configured_library() as library:
        after = library.forget_lessons(playbook, choose)
    lines = "\n".join(f"{after.slug} has forgotten: {lesson.text}" for lesson in chosen)
    print_result(playbook_json(after), lines, as_json)


@app.command("rm")
def rm(
    playbook: Ref,
    archive: Annotated[
        bool, typer.Option("--archive", help="Archive the playbook instead of deleting it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a playbook with its history, or archive it."""
    with configured_library() as library:
        if archive:
            slug = library.update(playbook, PlaybookChanges(status="archived")).slug
            print_result({"archived": slug}, f"archived {slug}", as_json)
            return
        if not library.delete(playbook):
            raise EntryNotFound(f"no playbook {playbook!r}: `harness memory list` shows all")
    print_result({"deleted": True}, f"deleted {playbook}", as_json)


def _result_line(result: SearchResult) -> str:
    playbook: Playbook = result.playbook
    return f"[{result.score:.2f}] {playbook.slug} (confidence: {playbook.confidence:.0%})"


def _result_json(result: SearchResult) -> dict[str, object]:
    return {
        "score": result.score,
        "relevance": result.relevance,
        "found_by": {
            arm: {"rank": at.rank, "score": at.score} for arm, at in result.arm_ranks.items()
        },
        **playbook_json(result.playbook),
    }
