"""Ratings of runs by people. A good rating starts a curation."""

from typing import Literal, NamedTuple

from contracts.errors import HarnessError
from flows.config.memory import load_memory_settings
from flows.config.settings import Settings, load_settings
from flows.recall.curation import is_worth_curating
from flows.recall.library import configured_notebook
from flows.runs.runs import find_run, load_report
from memory.notes.run_history import RunRating

Look = Literal["none", "started", "waits"]

DEPLOYMENT = "curate-run"


class RatingSaved(NamedTuple):
    """A saved rating, and whether a curation of the run was started."""

    rating: RunRating
    look: Look
    """`waits`: the run is worth curating, but no worker is running to do it in the background."""
    why: str
    """The value of `look` as a line for a person; empty for `none`."""


def rate_run(run: str, score: int, *, by: str = "") -> RatingSaved:
    """Save a rating, 0 to 100, of a run by its id or an unambiguous prefix.

    Starts a curation in the background if the run is now worth it.

    Raises:
        RunNotFound: no such run, or several.
        NoteInvalid: the score is out of range.
    """
    settings, options = load_settings(), load_memory_settings()
    own = find_run(settings.runs, run)
    with configured_notebook(options) as book:
        rating = book.runs.rate(own.name, score, by=by)
        report = load_report(own)
        earned = report is not None and is_worth_curating(book, report, options)
    return _look(settings, rating) if earned else RatingSaved(rating, "none", "")


def _look(settings: Settings, rating: RunRating) -> RatingSaved:
    """Start a curation if `harness up` keeps a worker; else return how to start one by hand."""
    from flows.services.deploy import (  # imports Prefect: half a second
        missing_worker_warning,
        start_deployment,
    )
    from flows.services.prefect_server import current_api_url

    api = current_api_url(settings)
    if api is None:
        nobody: str | None = "nothing is up that would do it in the background"
    else:
        try:
            nobody = missing_worker_warning(api)
            if nobody is None:
                start_deployment(api, DEPLOYMENT, {"run": rating.run_id, "once": True})
        except HarnessError as error:
            nobody = str(error)
    if nobody is not None:
        return RatingSaved(
            rating, "waits", f"`harness curate {rating.run_id}` lets it teach: {nobody}"
        )
    found = f"`harness notes list --run {rating.run_id}` shows it soon"
    return RatingSaved(rating, "started", f"what it teaches is being looked at: {found}")
