"""`harness curate`: what runs teach, proposed for a person to approve."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line
from contracts.errors import OptionInvalid

if TYPE_CHECKING:
    from memory.curation.curate import CurationResult


def curate(
    run: Annotated[str | None, typer.Argument(help="A run id, or the beginning of one.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Instead: all that earned it since 24h, 7d, …")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Who looks; only with a run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let a run teach notes and examples. They are Pending until `harness notes approve`."""
    from flows.recall.curation import curate_run, curate_since, parse_age

    if (run is None) == (since is None):
        raise OptionInvalid("say either which RUN to look at, or --since 24h for all recent ones")
    if run is not None:
        found = [curate_run(run, model=model)]
    else:
        found = list(curate_since(parse_age(since or "", datetime.now(UTC))))
    if as_json:
        documents = [_json(one) for one in found]
        print_json(documents[0] if run is not None else documents)
        return
    for one in found:
        _show(one)
    if not found:
        print_line(
            "no run since then earned a look: `harness runs rate R 0..100` says which were good"
        )


def _show(one: "CurationResult") -> None:
    from memory.notes.content import kind_of, searchable_text

    if one.error:
        print_line(f"run {one.run_id}: {one.error}")
    for entry in one.written:
        said = " ".join(searchable_text(entry).split())[:70]
        print_line(
            f"{entry.status}: {kind_of(entry)} {entry.id} ({entry.confidence} of 100): {said}"
        )
        for flag in entry.flags:
            print_line(f"  {flag.kind} {flag.other}: {flag.why}")
    for known in one.merged:
        print_line(f"known already: {known}")
    for refused in one.refused:
        print_line(f"refused: {refused.words[:70]}: {refused.why}")
    if not (one.error or one.written or one.merged or one.refused):
        print_line(f"run {one.run_id} taught nothing")


def _json(one: "CurationResult") -> dict[str, object]:
    from memory.notes.content import entry_json

    return {
        "run_id": one.run_id,
        "written": [entry_json(entry) for entry in one.written],
        "merged": list(one.merged),
        "refused": [{"words": each.words, "why": each.why} for each in one.refused],
        "fault": one.error,
    }
