"""Options that several commands have."""

from typing import Annotated

import typer

from contracts.errors import OptionInvalid

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

MAX_ROWS = 1_000_000
"""Upper bound of `--limit`: SQLite rejects numbers above 2**63."""


def resolve_run_id(run: str | None) -> str | None:
    """Return the full id of the local run whose id starts with `run`; without one, `run` itself.

    Raises:
        OptionInvalid: `run` is empty, for example because a shell variable is not set.
    """
    from flows.config.settings import load_settings
    from flows.runs.runs import resolve_id

    if run is not None and not run.strip():
        raise OptionInvalid("--run is empty: name a run, or omit the option")
    return resolve_id(load_settings().runs, run) if run else run
