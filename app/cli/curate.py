"""`harness curate`: proposes notes and examples from finished runs."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line
from contracts.errors import OptionInvalid
from flows.recall.curation import curate_run, curate_since, parse_age
from memory.curation.curate import CurationResult
from memory.notes.content import entry_json, kind_of, searchable_text


def curate(
    run: Annotated[str | None, typer.Argument(help="A run id, or the beginning of one.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Curate all qualifying runs of this period instead, such as 24h or 7d."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that reads the run; only with RUN.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose notes and examples; they stay Pending until `harness notes approve`."""
    if (run is None) == (since is None):
        raise OptionInvalid("give either a RUN, or --since 24h for all recent runs")
    if run is not None:
        results = [curate_run(run, model=model)]
    else:
        results = list(curate_since(parse_age(since or "", datetime.now(UTC))))
    if as_json:
        documents = [_json(one) for one in results]
        print_json(documents[0] if run is not None else documents)
        return
    for one in results:
        _print(one)
    if not results:
        print_line("no run of this period qualifies: rate good runs with `harness runs rate`")


def _print(result: CurationResult) -> None:
    if result.error:
        print_line(f"run {result.run_id}: {result.error}")
    for entry in result.written:
        text = " ".join(searchable_text(entry).split())[:70]
        confidence = f"{entry.confidence} of 100"
        print_line(f"{entry.status}: {kind_of(entry)} {entry.id} ({confidence}): {text}")
        for flag in entry.flags:
            print_line(f"  {flag.kind} {flag.other}: {flag.why}")
    for merged in result.merged:
        print_line(f"already known: {merged}")
    for rejected in result.refused:
        print_line(f"refused: {rejected.words[:70]}: {rejected.why}")
    if not (result.error or result.written or result.merged or result.refused):
        print_line(f"run {result.run_id}: no proposals")


def _json(result: CurationResult) -> dict[str, object]:
    return {
        "run_id": result.run_id,
        "written": [entry_json(entry) for entry in result.written],
        "merged": list(result.merged),
        "refused": [{"words": each.words, "why": each.why} for each in result.refused],
        "fault": result.error,
    }
