"""Ids of runs, as a person types them."""


def whole_run(run: str | None) -> str | None:
    """The id of the run of this machine that begins so; else what was given."""
    from flows.runs import whole_id
    from flows.settings import load_settings

    return whole_id(load_settings().runs, run) if run else run
