"""Curation of runs: read a run's folder, ask a model, store proposals.

People rate runs, and a good rating starts a curation.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from contracts.chat import Complete
from contracts.errors import HarnessError, ModelUnavailable, OptionInvalid
from contracts.run import RunReport
from flows.config.memory import MemorySettings, load_memory_settings
from flows.config.settings import Settings, load_settings
from flows.recall.library import configured_notebook
from flows.runs.home import TRAJECTORY
from flows.runs.run_record import RunRecord, read_record
from flows.runs.runs import find_run, load_report, read_report, reported_at, runs_reported_since
from flows.services.gateway import complete_through_gateway
from memory.curation import curate
from memory.curation.curate import CurationResult
from memory.curation.proposals import RunTranscript
from memory.notes.notebook import Notebook
from memory.notes.run_history import RunRating
from memory.scope import Scope, validate_scope
from providers.trajectory import event_line, read_trajectory

Look = Literal["none", "started", "waits"]

DEPLOYMENT = "zz-curate-run"

RATED_WELL = 80
"""Runs with a higher rating are curated without a request."""

_LINES = 200
_LINE = 600
_OUTPUT = 2_000


class RatingSaved(NamedTuple):
    """A saved rating, and whether a curation of the run was started."""

    rating: RunRating
    look: Look
    """`waits`: the run is worth curating, but no worker is running to do it in the background."""
    why: str
    """The value of `look` as a line for a person; empty for `none`."""


def curate_run(run: str, *, model: str | None = None) -> CurationResult:
    """Curate one run by its id or an unambiguous prefix, however it ended.

    Raises:
        RunNotFound: no such run, several, or no report yet.
        ModelUnavailable: the model does not answer.
    """
    settings, options = load_settings(), load_memory_settings()
    with configured_notebook(options) as book, _curator(settings, options) as complete:
        transcript = run_story(settings.runs, run, book)
        chosen = model or _model(settings, options)
        return curate.curate_run(book, complete, chosen, transcript)


def curate_uncurated(run: str) -> CurationResult | None:
    """Like `curate_run`, for runs that nobody asked about; None if the run was curated before.

    Raises:
        RunNotFound, ModelUnavailable.
    """
    settings, options = load_settings(), load_memory_settings()
    with configured_notebook(options) as book:
        return _curate_once(book, run, settings, options)


def curate_since(since: datetime) -> Iterator[CurationResult]:
    """Curate the runs that were reported or rated since then, are worth it, and were not curated
    yet.

    Failures are raised after the other runs are done.

    Raises:
        ModelUnavailable, OptionInvalid: no run could be curated because no model is available.
    """
    settings, options = load_settings(), load_memory_settings()
    any_curated, failed = False, dict[str, HarnessError]()
    with configured_notebook(options) as book:
        for run_id in _recent(settings.runs, book, since):
            try:
                waits = _is_waiting(book, read_report(settings.runs, run_id), options)
                curated = _curate_once(book, run_id, settings, options) if waits else None
            except HarnessError as error:
                failed[run_id] = error
                continue
            if curated is not None:
                any_curated = True
                yield curated
    no_model = [one for one in failed.values() if isinstance(one, ModelUnavailable | OptionInvalid)]
    if no_model and not any_curated:
        raise no_model[0]
    for run_id, failure in failed.items():
        yield CurationResult(run_id=run_id, error=str(failure))


def is_worth_curating(book: Notebook, report: RunReport, options: MemorySettings) -> bool:
    """Return True if a finished run should be curated without a request."""
    return options.curates and _is_waiting(book, report, options)


def rate_run(run: str, score: int, *, by: str = "") -> RatingSaved:
    """Save a rating, 0 to 100, of a run by its id or an unambiguous prefix.

    Starts a curation in the background if the run is now worth it.

    Raises:
        RunNotFound: no such run, or several.
        EntryInvalid: the score is out of range.
    """
    settings, options = load_settings(), load_memory_settings()
    own = find_run(settings.runs, run)
    with configured_notebook(options) as book:
        rating = book.runs.rate(own.name, score, by=by)
        report = load_report(own)
        earned = report is not None and is_worth_curating(book, report, options)
    return _start_curation(settings, rating) if earned else RatingSaved(rating, "none", "")


def run_story(runs: Path, run: str, book: Notebook) -> RunTranscript:
    """Return the run's transcript for the curator, with the user's own words separate from the
    rest.

    A request that came from elsewhere, such as an issue, counts as the rest.

    Raises:
        RunNotFound: as `read_report`.
    """
    own = find_run(runs, run)
    report = read_report(runs, own.name)
    record = read_record(own) or RunRecord(
        run_id=own.name, blueprint="", name="", repo="", started_at="", process=""
    )
    rated = book.runs.rating(own.name)
    return RunTranscript(
        run_id=own.name,
        status=report.status,
        intent="" if record.intent_from else report.intent,
        intent_source=record.intent_from,
        agent=report.agent,
        viewer=validate_scope(Scope(user=record.user or None, company=record.company or None)),
        rating=rated.score if rated else None,
        transcript=tuple(_transcript(own / TRAJECTORY, report, record.intent_from)),
    )


def _transcript(trajectory: Path, report: RunReport, intent_from: str) -> Iterator[str]:
    """Return the request if its author is unknown, the last lines of the log, and each node's
    outcome."""
    if intent_from:
        yield f"request taken from {intent_from}: {' '.join(report.intent.split())[:_OUTPUT]}"
    events = read_trajectory(trajectory) if trajectory.exists() else iter(())
    yield from [event_line(event)[:_LINE] for event in events][-_LINES:]
    for node in report.nodes:
        ended = " ".join((node.error or node.output)[-_OUTPUT:].split())
        yield f"node {node.name}: {node.status}: {ended}"


def _curate_once(
    book: Notebook, run: str, settings: Settings, options: MemorySettings
) -> CurationResult | None:
    with _curator(settings, options) as complete:  # each curation has its own budget
        transcript = run_story(settings.runs, run, book)
        return curate.curate_once(book, complete, _model(settings, options), transcript)


def _start_curation(settings: Settings, rating: RunRating) -> RatingSaved:
    """Start a curation if `harness up` keeps a worker; else return how to start one by hand."""
    from flows.services import prefect_server
    from flows.services.deploy import missing_worker_warning, start_deployment

    run_id = rating.run_id
    api = prefect_server.current_api_url(settings)
    obstacle: str | None = "no worker runs: start one with `harness up`"
    if api is not None:
        try:
            obstacle = missing_worker_warning(api)
            if obstacle is None:
                start_deployment(api, DEPLOYMENT, {"run": run_id, "once": True})
        except HarnessError as error:
            obstacle = str(error)
    if obstacle is not None:
        why = f"`harness curate {run_id}` proposes notes from this run: {obstacle}"
        return RatingSaved(rating, "waits", why)
    why = f"notes are being proposed from this run: `harness notes list --run {run_id}`"
    return RatingSaved(rating, "started", why)


def _recent(runs: Path, book: Notebook, since: datetime) -> list[str]:
    """Return the runs that were reported or rated since then; the newest report first."""
    ids = {*book.runs.runs_rated_since(since), *runs_reported_since(runs, since)}
    ended = {run_id: at for run_id in ids if (at := reported_at(runs, run_id)) is not None}
    return sorted(ended, key=lambda run_id: -ended[run_id])


def _is_waiting(book: Notebook, report: RunReport, options: MemorySettings) -> bool:
    """Return True if the run is worth curating and was not curated yet."""
    good = report.status == "success" and _is_good(book, report.run_id, options)
    return good and not curate.is_curated(book, report.run_id)


def _is_good(book: Notebook, run_id: str, options: MemorySettings) -> bool:
    rated = book.runs.rating(run_id)
    if rated is not None:
        return rated.score > RATED_WELL
    return options.curate == "success"


def _model(settings: Settings, options: MemorySettings) -> str:
    return options.curate_model or settings.model


def _curator(settings: Settings, options: MemorySettings) -> AbstractContextManager[Complete]:
    budget = options.curate_budget_usd
    return complete_through_gateway(settings, purpose="curate", budget_usd=budget)


def parse_age(text: str, now: datetime, *, option: str = "--since") -> datetime:
    """Return the moment that is `24h`, `7d` or `90m` before now.

    Raises:
        OptionInvalid: the text is no duration.
    """
    units = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    number, unit = text[:-1], text[-1:]
    try:
        length = timedelta(**{units[unit]: float(number)})
        if length < timedelta(0):
            raise ValueError(text)
        return now - length
    except (KeyError, ValueError, OverflowError) as error:
        raise OptionInvalid(f"{option} {text!r}: write it as 90m, 24h, 7d or 2w") from error
