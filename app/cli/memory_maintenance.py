"""`harness memory`, second half: how it went, whether it helps, and looking after the store."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.terminal.files import read_file, write_file
from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_message, print_result
from app.terminal.run_ids import resolve_run_id
from contracts.errors import OptionInvalid
from nodes.text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory.playbooks.lift import Lift
    from memory.types import Execution

Ref = Annotated[str, typer.Argument(help="The id or slug of a playbook.")]
Outcome = Literal["success", "partial", "failure", "neutral"]

app = typer.Typer(help="Playbooks: how it went.")


@app.command("record")
def record(
    playbook: Ref,
    outcome: Annotated[Outcome, typer.Argument(help="How it went.")],
    task: Annotated[str, typer.Option(help="What was to be done.")] = "",
    run: Annotated[str | None, typer.Option(help="The run; settles what it left open.")] = None,
    failed: Annotated[list[str] | None, typer.Option(help="What failed; repeatable.")] = None,
    lesson: Annotated[list[str] | None, typer.Option(help="What to do better.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record that a playbook was followed, and how it went."""
    from flows.config.settings import load_settings
    from flows.recall.library import configured_library
    from flows.runs.runs import is_known
    from memory.content import playbook_json
    from memory.playbooks.learn import record_feedback
    from memory.types import Execution, Reflection

    for option, texts in (("--failed", failed), ("--lesson", lesson)):
        if not all(text.strip() for text in texts or ()):
            raise OptionInvalid(f"{option} is empty: say what it was, or leave it out")
    run_id = resolve_run_id(run)
    words = Reflection(what_failed=tuple(failed or ()), improvements=tuple(lesson or ()))
    said = Execution(
        run_id=run_id,
        agent="person",
        task=task,
        outcome=outcome,
        reflection=words if failed or lesson else None,
    )
    with configured_library() as opened:
        verdict = record_feedback(opened, playbook, said)
        after = opened.get(playbook)
    told = f"{after.slug}: {verdict.outcome}, confidence {after.confidence:.0%}"
    print_result(
        playbook_json(after), told if verdict.counted else f"{told} (recorded before)", as_json
    )
    if run_id and not is_known(load_settings().runs, run_id):
        print_message(f"note: run {run!r} is not known here; it counts, and settles no run that is")
    if verdict.held_out:
        print_message(
            f"note: run {run!r} was shown no playbook, to compare: its outcome counts for none"
        )
    if verdict.outcome != outcome:
        print_message(
            f"note: run {run!r} counts as {verdict.outcome} already, and not as {outcome}"
        )
    for text, why in verdict.lessons.rejected:
        print_message(f"note: lesson {text[:60]!r} was not kept: {escape_invisible(why)}")


@app.command("reflect")
def reflect(
    playbook: Annotated[str | None, typer.Argument(help="Apply what waits for this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show reflections that wait for a person; with a playbook, make them its lessons."""
    from flows.recall.library import configured_library

    with configured_library() as opened:
        waiting = opened.waiting_reflections(playbook)
        if playbook is None:
            rows = [
                {"playbook": opened.get(e.playbook_id or "").slug, "run": e.run_id, **text}
                for e in waiting
                for text in _texts(e)
            ]
            lines = [_line(row) for row in rows]
            print_result(rows, escape_invisible("\n".join(lines)) or "nothing waits", as_json)
            return
        new = [
            text
            for e in waiting
            if e.reflection
            for text in opened.apply_reflection(playbook, e.reflection, run_id=e.run_id)
        ]
    learned = escape_invisible("\n".join(f"learned: {text}" for text in new))
    print_result({"lessons": new}, learned or "nothing new", as_json)


@app.command("stats")
def stats(as_json: AsJson = False) -> None:
    """Totals, and whether memory helps."""
    from flows.recall.library import configured_library

    with configured_library() as opened:
        totals = opened.stats()
        report = opened.lift()
    if as_json:
        each = [{**asdict(p), "lift": _lift(p.lift)} for p in report.playbooks]
        lift = {**asdict(report), "overall": _lift(report.overall), "playbooks": each}
        print_json({**asdict(totals), "lift": lift})
        return
    print_line(f"playbooks: {totals.playbooks} ({totals.archived} archived)")
    print_line(f"executions: {totals.executions} ({totals.pending} pending)")
    print_line(f"average confidence: {totals.average_confidence:.0%}")
    for category, number in totals.by_category.items():
        print_line(f"  {escape_invisible(category) or '(no category)'}: {number}")
    print_line(f"runs: {report.runs}, {report.held_out} of them shown no playbook to compare")
    print_line(f"lift: {_lift_line(report.overall)}")
    for one in report.playbooks:
        counts = f"found {one.retrieved}, shown {one.shown}, cited {one.cited}"
        print_line(f"  {escape_invisible(one.title)}: {counts}; {_lift_line(one.lift)}")


@app.command("prune")
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show.")] = False,
    max_age_days: Annotated[float | None, typer.Option(min=0)] = None,
    min_confidence: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Archive what is stale or weak; nothing is deleted."""
    from flows.config.memory import load_memory_settings
    from flows.recall.library import configured_library
    from memory.types import Retention

    kept = load_memory_settings().retention
    retention = Retention(
        max_age_days=kept.max_age_days if max_age_days is None else max_age_days,
        min_confidence=kept.min_confidence if min_confidence is None else min_confidence,
    )
    with configured_library() as opened:
        stale = opened.prune(retention, dry_run=dry_run)
    word = "would archive" if dry_run else "archived"
    rows = [{"id": p.id, "playbook": p.slug, "why": why} for p, why in stale]
    lines = [f"{word} {row['playbook']}: {row['why']}" for row in rows]
    print_result(
        {"dry_run": dry_run, "archived": rows}, "\n".join(lines) or "nothing is stale", as_json
    )


@app.command("reindex")
def reindex(as_json: AsJson = False) -> None:
    """Make the search indexes anew, and the vectors that the model has not made yet."""
    from rich.console import Console
    from rich.progress import Progress

    from flows.recall.library import configured_library, configured_notebook

    with (
        configured_library() as opened,
        configured_notebook() as book,
        Progress(console=Console(stderr=True), transient=True, disable=as_json) as bar,
    ):
        line = bar.add_task("reindexing", total=None)
        opened.reindex(lambda done, of: bar.update(line, completed=done, total=of))
        number = opened.stats().playbooks
        made = book.embeddings.embed_missing()
    said = f"reindexed {number} playbooks; made {made} vectors of notes and examples"
    print_result({"playbooks": number, "note_vectors": made}, said, as_json)


@app.command("doctor")
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Make anew what is wrong.")] = False,
    back_up: Annotated[bool, typer.Option("--back-up", help="Copy the database aside.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the indexes with the database."""
    from flows.recall.init import copy_database
    from flows.recall.library import configured_library

    if back_up:
        where = copy_database()
        print_result({"copy": str(where)}, f"copied to {where}", as_json)
        return
    with configured_library() as opened:
        findings = opened.doctor(repair=repair)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    for finding in findings if not as_json else ():
        advice = f": {finding.advice}" if finding.advice else ""
        print_line(f"{'ok ' if finding.ok else 'BAD'} {finding.name}: {finding.seen}{advice}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


@app.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="The file to write; stdout if none.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write playbooks, executions, notes and examples as lines of JSON."""
    if as_json and file is None:
        raise OptionInvalid("--json describes the file that was written: name one")

    from flows.recall.library import configured_library
    from memory.export_import import export_store
    from memory.export_lines import count_by_type

    with configured_library() as opened:
        lines = list(export_store(opened))
    if file is not None:
        write_file(file, "".join(f"{line}\n" for line in lines))
        counts = count_by_type(lines)
        summary = ", ".join(f"{number} {name}" for name, number in counts.items())
        print_result({"file": str(file), **counts}, f"wrote {summary} to {file}", as_json)
    elif lines:
        print_line("\n".join(lines))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that `export` wrote; - for stdin.")],
    as_json: AsJson = False,
) -> None:
    """Import such a file; importing it again changes nothing."""
    from flows.recall.library import configured_library, configured_notebook
    from memory.export_import import import_store

    text = read_file(file)
    if not text.strip():
        raise OptionInvalid(f"{str(file)!r} is empty: there is nothing to import")
    with configured_library() as opened, configured_notebook() as book:
        done = import_store(opened, book, text.split("\n"))
    counts = {how: len(names) for how, names in asdict(done).items()}
    print_result(asdict(done), ", ".join(f"{n} {how}" for how, n in counts.items()), as_json)
    if done.kept:
        print_message(f"note: newer here, so not replaced: {', '.join(done.kept)}")


def _texts(waiting: "Execution") -> list[dict[str, str]]:
    """What others will read of a reflection once it is applied."""
    said = waiting.reflection
    if said is None:
        return []
    failed = [text for text in said.what_failed if text not in said.told]
    lessons = () if waiting.reflection_applied else said.improvements
    return [{"lesson": text} for text in lessons] + [{"failed": text} for text in failed]


def _line(row: "Mapping[str, str | None]") -> str:
    text = row.get("lesson") or f"what failed: {row['failed']}"
    return f"{row['playbook']}: {text} (run {row['run']})"


def _lift(lift: "Lift") -> dict[str, object]:
    return {
        **asdict(lift),
        "difference": round(lift.difference, 4),
        "interval": [round(lift.interval.low, 4), round(lift.interval.high, 4)],
        "verdict": lift.verdict,
    }


def _lift_line(lift: "Lift") -> str:
    low, high = lift.interval
    return f"{lift.difference:+.0%} ({low:+.0%} to {high:+.0%}), {lift.verdict}"
