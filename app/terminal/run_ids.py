"""Ids of runs, as a person types them."""


def whole_run(run: str | None) -> str | None:
    """The id of the run of this machine that begins so; else what was given."""
    from flows.config.settings import load_settings
    from flows.runs.runs import whole_id

    return whole_id(load_settings().runs, run) if run else run
