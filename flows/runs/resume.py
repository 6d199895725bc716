"""Resuming a run: find its recorded request and check that its blueprint still fits."""

import os
from pathlib import Path
from typing import NamedTuple

from blueprints.find import find_blueprint
from blueprints.types import Blueprint
from contracts.errors import HarnessError, RunNotResumable
from flows.runs.layout import CHECKPOINT
from flows.runs.lock import run_lock
from flows.runs.request import ResolvedRequest, RunRequest
from flows.runs.run_record import RunRecord, read_record
from flows.runs.runs import find_run, read_entry


class ResumableRun(NamedTuple):
    """A run that can be resumed. `flow_run_id` is the Prefect flow run that began it."""

    run_id: str
    request: ResolvedRequest
    flow_run_id: str | None


def find_resumable(folder: Path, run: str) -> ResumableRun:
    """Find a stopped run by its id or an unambiguous prefix.

    Changes to the directory in which the run was started: the request may name paths in it.

    Raises:
        RunNotFound: no such run, or several.
        RunNotResumable: it is running or finished, or its files are gone.
    """
    own = find_run(folder, run)
    with run_lock(folder, own.name):
        entry = read_entry(folder, own.name)
        goes_on = entry.resumable or (own / CHECKPOINT).is_file()
        if entry.state == "queued" or not goes_on:
            raise RunNotResumable(_why_not(own.name, entry.state))
    asked = read_record(own)
    if asked is None:
        raise RunNotResumable(f"run {own.name} has gone while it was looked at")
    return ResumableRun(own.name, recorded_request(asked), asked.flow_run_id)


def _why_not(run_id: str, state: str) -> str:
    if state == "queued":
        return f"run {run_id} is queued: it begins by itself when its turn comes"
    if state in ("running", "lost"):
        return f"run {run_id} is {state} and cannot go on: nothing was kept of it"
    return f"run {run_id} is finished ({state}): `harness run` starts another"


def recorded_request(asked: RunRecord) -> ResolvedRequest:
    """Return the recorded request, with its blueprint loaded again.

    Changes to the directory in which the run was started: the request may name paths in it.

    Raises:
        RunNotResumable: the blueprint or the directory is gone or has changed.
    """
    try:
        os.chdir(asked.cwd)
        blueprint = find_blueprint(asked.blueprint, repo=asked.repo)
    except (OSError, HarnessError) as error:
        raise RunNotResumable(f"run {asked.run_id} cannot go on: {error}") from error
    check_same_nodes(asked, blueprint)
    return request_for(asked, blueprint)


def request_for(asked: RunRecord, blueprint: Blueprint) -> ResolvedRequest:
    """Return the recorded request with this blueprint."""
    given = {name: getattr(asked, name) for name in RunRequest.model_fields}
    return ResolvedRequest(definition=blueprint, **given)


def check_same_nodes(asked: RunRecord, blueprint: Blueprint) -> None:
    """Check that the blueprint has the recorded nodes: checkpoints store results by node name.

    Raises:
        RunNotResumable: names the nodes.
    """
    now = tuple(blueprint.all_names())
    if now != asked.nodes:
        raise RunNotResumable(
            f"run {asked.run_id} cannot go on: blueprint {asked.blueprint!r} has changed. "
            f"Its nodes were {', '.join(asked.nodes)} and are {', '.join(now)}"
        )
