"""Ids of runs, as a person types them."""

from contracts.errors import OptionInvalid


def resolve_run_id(run: str | None) -> str | None:
    """The id of the run of this machine that begins so; else what was given.

    Raises:
        OptionInvalid: it is empty, as of a variable that is not set.
    """
    from flows.config.settings import load_settings
    from flows.runs.runs import resolve_id

    if run is not None and not run.strip():
        raise OptionInvalid("--run is empty: name a run, or leave it out")
    return resolve_id(load_settings().runs, run) if run else run
