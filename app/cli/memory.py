"""`harness memory`: playbooks kept, found, changed, judged and looked after."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import memory_maintenance
from app.terminal.editor import edit_text, save_if_rejected
from app.terminal.files import read_file
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import print_json, print_line, print_result
from app.terminal.present import print_table
from contracts.errors import OptionInvalid
from nodes.text import escape_invisible

if TYPE_CHECKING:
    from memory.types import Playbook, SearchResult

Ref = Annotated[str, typer.Argument(help="The id or slug of a playbook.")]
Category = Annotated[str | None, typer.Option(help="Only this category.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag; repeatable.")]
Archived = Annotated[bool, typer.Option("--archived", help="Archived ones too.")]
Provider = Literal["local", "google", "openai", "ollama", "litellm", "none"]

NO_PLAYBOOKS = "no playbooks: `harness memory add TITLE --use-case …` keeps one"

app = typer.Typer(help="Playbooks: what worked before.", no_args_is_help=True)
app.add_typer(memory_maintenance.app)


@app.command("init")
def init(
    provider: Annotated[Provider, typer.Option(help="Who makes vectors.")] = "local",
    model: Annotated[str, typer.Option(help="Not the provider's usual model.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what stands there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the table [memory] of harness.toml."""
    from flows.recall.init import write_memory_table

    path = write_memory_table(provider, model=model, force=force)
    print_result({"config": str(path), "provider": provider}, f"wrote [memory] to {path}", as_json)


@app.command("add")
def add(
    title: Annotated[str, typer.Argument(help="A short name for what it handles.")] = "",
    use_case: Annotated[str, typer.Option(help="When to use it.")] = "",
    process: Annotated[str, typer.Option(help="What to do, as free text.")] = "",
    step: Annotated[list[str] | None, typer.Option(help="One step; repeatable.")] = None,
    notes: Annotated[str, typer.Option(help="What is only suspected yet.")] = "",
    category: Annotated[str, typer.Option(help="One word for its kind.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Repeatable.")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Not ready yet.")] = False,
    file: Annotated[Path | None, typer.Option(help="A JSON playbook; - for stdin.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a new playbook."""
    from flows.recall.library import configured_library
    from memory.content import parse_content, playbook_json
    from memory.playbooks.editing import parse_json

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
    with configured_library() as opened:
        made = opened.create(parse_content(document))
    print_result(playbook_json(made), f"kept {made.slug} ({made.id})", as_json)


@app.command("list")
def list_(
    category: Category = None,
    tags: Tags = None,
    archived: Archived = False,
    limit: Annotated[
        int | None, typer.Option(min=0, max=MAX_ROWS, help="The newest so many.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List playbooks, the newest change first."""
    from flows.recall.library import configured_library
    from memory.content import playbook_json
    from memory.types import PlaybookFilter

    where = PlaybookFilter(category=category, tags=tuple(tags or ()), archived=archived)
    with configured_library() as opened:
        found = opened.list(where, limit=limit)
    if as_json:
        print_json([playbook_json(playbook) for playbook in found])
    elif not found:
        narrowed = category is not None or bool(tags) or limit == 0
        print_line("no playbook matches" if narrowed else NO_PLAYBOOKS)
    else:
        print_table(
            ("playbook", "status", "confidence", "executions", "category"),
            [(p.slug, p.status, *_known(p), escape_invisible(p.category)) for p in found],
        )


@app.command("show")
def show_(
    playbook: Ref,
    history: Annotated[bool, typer.Option("--history", help="Every version.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one playbook."""
    from flows.recall.library import configured_library
    from memory.content import playbook_json
    from memory.playbooks.editing import playbook_to_text

    with configured_library() as opened:
        found = opened.get(playbook)
        versions = opened.history(playbook) if history else []
    if as_json:
        past = [asdict(version) for version in versions]
        print_json({**playbook_json(found), **({"history": past} if history else {})})
        return
    print_line(escape_invisible(playbook_to_text(found)))
    for version in versions:
        by = escape_invisible(version.source)
        print_line(f"version {version.version}, {version.at:%Y-%m-%d %H:%M}, by {by}")


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(help="What you want to do.")],
    category: Category = None,
    tags: Tags = None,
    archived: Archived = False,
    limit: Annotated[int | None, typer.Option(min=0, max=MAX_ROWS, help="10 if not given.")] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    max_distance: Annotated[
        float | None,
        typer.Option(min=0, max=2, help="0 is the same, 2 the opposite; the model's own."),
    ] = None,
    confidence_weight: Annotated[
        float | None, typer.Option(min=0, max=1, help="0 if not given.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Each arm's rank and score.")] = False,
    context: Annotated[
        bool, typer.Option("--context", help="As a prompt would hold it, by the settings.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find playbooks by what they are for."""
    if not text.strip():
        raise OptionInvalid("the text to search for is empty: say what you want to do")
    from flows.config.memory import load_memory_settings
    from flows.recall.library import configured_library
    from memory.playbooks.render import render_playbooks
    from memory.types import PlaybookFilter, PlaybookQuery

    options = load_memory_settings()
    usual = options.surfacing if context else PlaybookQuery(text=text)
    where = PlaybookFilter(
        category=category, tags=tuple(tags or ()), archived=archived, drafts=not context
    )
    query = PlaybookQuery(
        text=text,
        limit=usual.limit if limit is None else limit,
        filter=where,
        min_score=min_score,
        max_distance=usual.max_distance if max_distance is None else max_distance,
        confidence_weight=(
            usual.confidence_weight if confidence_weight is None else confidence_weight
        ),
    )
    with configured_library() as opened:
        if context:
            found = opened.search_with_context(query, options.contrast)
            text = render_playbooks(found, budget_tokens=options.budget_tokens).text
            print_result({"context": text}, text, as_json)
            return
        hits = opened.search(query)
    if as_json:
        print_json([_hit(hit) for hit in hits])
    elif not hits:
        print_line(f"nothing found for {text!r}")
    for hit in hits if not as_json else ():
        print_line(f"[{hit.score:.2f}] {hit.playbook.slug} (confidence: {_known(hit.playbook)[0]})")
        if explain:
            print_line(f"       {_why(hit)}")


@app.command("edit")
def edit(
    playbook: Ref,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last change back.")] = False,
    to: Annotated[int | None, typer.Option(help="With --undo: the version to go back to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a playbook in $EDITOR."""
    from flows.recall.library import configured_library
    from memory.content import playbook_json
    from memory.playbooks.editing import parse_changes, playbook_to_json

    if to is not None and not undo:
        raise OptionInvalid("--to says how far --undo goes back: give both")
    with configured_library() as opened:
        if undo:
            after = opened.undo(playbook, to=to)
        else:
            before = opened.get(playbook)
            text = edit_text(playbook_to_json(before))
            if text is None:
                print_result(playbook_json(before), f"{before.slug} is unchanged", as_json)
                return
            with save_if_rejected(text, f"{before.slug}-from-version-{before.version}.json"):
                changes = parse_changes(text)
                after = opened.update(before.id, changes, expected_version=before.version)
    print_result(playbook_json(after), f"{after.slug} is at version {after.version}", as_json)


@app.command("rm")
def rm(
    playbook: Ref,
    archive: Annotated[bool, typer.Option("--archive", help="Keep it out of sight.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a playbook for good, or archive it."""
    from flows.recall.library import configured_library
    from memory.errors import PlaybookNotFound
    from memory.types import PlaybookChanges

    with configured_library() as opened:
        if archive:
            slug = opened.update(playbook, PlaybookChanges(status="archived")).slug
            print_result({"archived": slug}, f"archived {slug}", as_json)
            return
        if not opened.delete(playbook):
            raise PlaybookNotFound(f"no playbook {playbook!r}: `harness memory list` shows all")
    print_result({"deleted": True}, f"deleted {playbook}", as_json)


def _known(playbook: "Playbook") -> tuple[str, str]:
    return f"{playbook.confidence:.0%}", str(playbook.counts.total)


def _hit(hit: "SearchResult") -> dict[str, object]:
    from memory.content import playbook_json

    places = {arm: {"rank": at.rank, "score": at.score} for arm, at in hit.arm_ranks.items()}
    return {
        "score": hit.score,
        "relevance": hit.relevance,
        "found_by": places,
        **playbook_json(hit.playbook),
    }


def _why(hit: "SearchResult") -> str:
    return ", ".join(f"{arm}: rank {at.rank}, {at.score:.3f}" for arm, at in hit.arm_ranks.items())
