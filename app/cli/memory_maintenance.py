"""`harness memory`: outcomes, lessons, statistics, and maintenance of the store."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.terminal.files import read_file, write_file
from app.terminal.options import AsJson, resolve_run_id
from app.terminal.output import print_json, print_line, print_message, print_result
from contracts.errors import OptionInvalid
from flows.config.memory import load_memory_settings
from flows.config.settings import load_settings
from flows.recall.library import configured_library, configured_notebook, copy_database
from memory.content import playbook_json
from memory.playbooks.executions import asks_for_playbook
from memory.playbooks.learn import record_feedback
from memory.playbooks.lift import Lift
from memory.types import Execution, Reflection, Retention
from nodes.text import escape_invisible

Ref = Annotated[str, typer.Argument(help="The id or slug of a playbook.")]
Outcome = Literal["success", "partial", "failure", "neutral"]

_EVIDENCE_LIMIT = 500

app = typer.Typer()


@app.command("record")
def record(
    playbook: Ref,
    outcome: Annotated[Outcome, typer.Argument(help="Result of following the playbook.")],
    task: Annotated[str, typer.Option(help="Description of the task.")] = "",
    run: Annotated[
        str | None, typer.Option(help="The run; its pending outcome is replaced.")
    ] = None,
    failed: Annotated[list[str] | None, typer.Option(help="What failed; repeatable.")] = None,
    lesson: Annotated[
        list[str] | None, typer.Option(help="Lesson for the next time; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record that a playbook was followed, and with which outcome."""
    from flows.runs.runs import is_known  # imports blueprints, which other commands do not need

    for option, texts in (("--failed", failed), ("--lesson", lesson)):
        if not all(text.strip() for text in texts or ()):
            raise OptionInvalid(f"{option} is empty: give a text, or omit the option")
    run_id = resolve_run_id(run)
    reflection = Reflection(what_failed=tuple(failed or ()), improvements=tuple(lesson or ()))
    execution = Execution(
        run_id=run_id,
        agent="person",
        task=task,
        outcome=outcome,
        reflection=reflection if failed or lesson else None,
    )
    with configured_library() as library:
        result = record_feedback(library, playbook, execution)
        after = library.get(playbook)
    line = f"{after.slug}: {result.outcome}, confidence {after.confidence:.0%}"
    if not result.counted:
        line += " (recorded before)"
    print_result(playbook_json(after), line, as_json)
    if run_id and not is_known(load_settings().runs, run_id):
        print_message(f"note: run {run!r} is not known on this machine; the outcome counts anyway")
    if result.held_out:
        print_message(
            f"note: run {run!r} got no playbook, for comparison: its outcome counts for none"
        )
    if result.outcome != outcome:
        print_message(f"note: run {run!r} already counts as {result.outcome}, not as {outcome}")
    for text, reason in result.lessons.rejected:
        print_message(f"note: lesson {text[:60]!r} was not added: {escape_invisible(reason)}")


@app.command("reflect")
def reflect(
    playbook: Annotated[
        str | None, typer.Argument(help="Add the pending lessons of this playbook.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Add the pending lessons of this run, or a new playbook.")
    ] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Drop these pending lessons instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List pending lessons with the runs behind them; add or drop those of a playbook or run."""
    if refuse and playbook is None and run is None:
        raise OptionInvalid("--refuse needs a playbook or --run: name whose lessons to drop")
    run_id = resolve_run_id(run)
    with configured_library() as library:
        pending = library.waiting_reflections(playbook)
        chosen = [one for one in pending if run_id is None or one.run_id == run_id]
        if playbook is None and run_id is None:
            slugs = {one.playbook_id: library.get(one.playbook_id).slug for one in pending
                     if one.playbook_id}  # fmt: skip
            rows = [row for one in pending for row in _pending_rows(one, slugs)]
            text = escape_invisible("\n".join(map(_pending_line, rows)))
            print_result(rows, text or "nothing is pending", as_json)
            return
        if refuse:
            dropped = sum(library.refuse_reflection(one) for one in chosen)
            print_result({"refused": dropped}, f"refused {dropped} reflections", as_json)
            return
        accepted = [library.accept_reflection(one) for one in chosen]
    lines = [f"{one.slug} learned: {text}" for one, added in accepted for text in added]
    added = [text for _, texts in accepted for text in texts]
    print_result({"lessons": added}, escape_invisible("\n".join(lines)) or "nothing new", as_json)


@app.command("stats")
def stats(as_json: AsJson = False) -> None:
    """Show totals, and how much playbooks improve the success of runs."""
    with configured_library() as library:
        totals = library.stats()
        report = library.lift()
    if as_json:
        each = [{**asdict(one), "lift": _lift_json(one.lift)} for one in report.playbooks]
        lift = {**asdict(report), "overall": _lift_json(report.overall), "playbooks": each}
        print_json({**asdict(totals), "lift": lift})
        return
    print_line(f"playbooks: {totals.playbooks} ({totals.archived} archived)")
    print_line(f"executions: {totals.executions} ({totals.pending} pending)")
    print_line(f"average confidence: {totals.average_confidence:.0%}")
    for category, number in totals.by_category.items():
        print_line(f"  {escape_invisible(category) or '(no category)'}: {number}")
    print_line(f"runs: {report.runs}, of which {report.held_out} got no playbook, for comparison")
    print_line(f"lift: {_lift_line(report.overall)}")
    for one in report.playbooks:
        counts = f"found {one.retrieved}, shown {one.shown}, cited {one.cited}"
        print_line(f"  {escape_invisible(one.title)}: {counts}; {_lift_line(one.lift)}")


@app.command("prune")
def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be archived.")
    ] = False,
    max_age_days: Annotated[
        float | None, typer.Option(min=0, help="Days without use or change.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Confidence below which it is archived.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Archive stale and weak playbooks; nothing is deleted."""
    defaults = load_memory_settings().retention
    retention = Retention(
        max_age_days=defaults.max_age_days if max_age_days is None else max_age_days,
        min_confidence=defaults.min_confidence if min_confidence is None else min_confidence,
    )
    with configured_library() as library:
        stale = library.prune(retention, dry_run=dry_run)
    word = "would archive" if dry_run else "archived"
    rows = [{"id": one.id, "playbook": one.slug, "why": reason} for one, reason in stale]
    text = "\n".join(f"{word} {row['playbook']}: {row['why']}" for row in rows)
    print_result({"dry_run": dry_run, "archived": rows}, text or "nothing is stale", as_json)


@app.command("reindex")
def reindex(as_json: AsJson = False) -> None:
    """Rebuild the search index, and embed the texts that have no vector yet."""
    from rich.console import Console  # here, so that other commands start quickly
    from rich.progress import Progress

    with (
        configured_library() as library,
        Progress(console=Console(stderr=True), transient=True, disable=as_json) as bar,
    ):
        task = bar.add_task("reindexing", total=None)
        library.reindex(lambda done, of: bar.update(task, completed=done, total=of))
        number = library.stats().playbooks
    line = f"reindexed {number} playbooks, and all notes and examples"
    print_result({"playbooks": number}, line, as_json)


@app.command("doctor")
def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild an index that is damaged or incomplete.")
    ] = False,
    back_up: Annotated[
        bool, typer.Option("--back-up", help="Only copy the database to a backup file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the search index with the database."""
    if back_up:
        copy = copy_database()
        print_result({"copy": str(copy)}, f"copied to {copy}", as_json)
        return
    with configured_library() as library:
        checks = library.doctor(repair=repair)
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            advice = f": {check.advice}" if check.advice else ""
            print_line(f"{'ok ' if check.ok else 'BAD'} {check.name}: {check.seen}{advice}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command("export")
def export(
    file: Annotated[
        Path, typer.Argument(help="The file to write; - or none writes to stdout.")
    ] = Path("-"),
    as_json: AsJson = False,
) -> None:
    """Write playbooks, executions, notes and examples as lines of JSON."""
    from memory.export_import import export_store  # here, so that other commands start quickly
    from memory.export_lines import count_by_type

    to_stdout = str(file) == "-"
    if as_json and to_stdout:
        raise OptionInvalid("--json describes the file that was written: name one")

    with configured_library() as opened:
        lines = list(export_store(opened))
    if not to_stdout:
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
    from memory.export_import import import_store  # here, so that other commands start quickly

    text = read_file(file)
    if not text.strip():
        raise OptionInvalid(f"{str(file)!r} is empty: there is nothing to import")
    with configured_library() as opened, configured_notebook() as book:
        done = import_store(opened, book, text.split("\n"))
    counts = {how: len(names) for how, names in asdict(done).items()}
    print_result(asdict(done), ", ".join(f"{n} {how}" for how, n in counts.items()), as_json)
    if done.kept:
        print_message(f"note: newer here, so not replaced: {', '.join(done.kept)}")


def _pending_rows(execution: Execution, slugs: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the texts that other runs will read once accepted, each with its evidence."""
    reflection = execution.reflection or Reflection()
    is_new = asks_for_playbook(execution)
    failed = [text for text in reflection.what_failed if text not in reflection.told and not is_new]
    lessons = () if execution.reflection_applied else reflection.improvements
    where = {"new_playbook": reflection.title or execution.task} if is_new else {
        "playbook": slugs.get(execution.playbook_id or "", "")}  # fmt: skip
    evidence = {
        "run": execution.run_id,
        "outcome": execution.outcome,
        "task": execution.task,
        "failed_steps": [
            {"step": step.name, "output": step.output[-_EVIDENCE_LIMIT:]}
            for step in execution.step_results
            if step.outcome == "failure"
        ],
    }
    texts = [{"lesson": text} for text in lessons] + [{"failed": text} for text in failed]
    return [{**where, **text, **evidence} for text in texts]


def _pending_line(row: Mapping[str, object]) -> str:
    text = row.get("lesson") or f"what failed: {row['failed']}"
    where = row.get("playbook") or f"new playbook {row['new_playbook']!r}"
    return f"{where}: {text} (run {row['run']}, {row['outcome']}: {row['task']})"


def _lift_json(lift: Lift) -> dict[str, object]:
    return {
        **asdict(lift),
        "difference": round(lift.difference, 4),
        "interval": [round(lift.interval.low, 4), round(lift.interval.high, 4)],
        "verdict": lift.verdict,
    }


def _lift_line(lift: Lift) -> str:
    low, high = lift.interval
    return f"{lift.difference:+.0%} ({low:+.0%} to {high:+.0%}), {lift.verdict}"
