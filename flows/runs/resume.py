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
    record = read_record(own)
    if record is None:
        raise RunNotResumable(f"run {own.name} has gone while it was looked at")
    return ResumableRun(own.name, recorded_request(record), record.flow_run_id)


def _why_not(run_id: str, state: str) -> str:
    if state == "queued":
        return f"run {run_id} is queued: it begins by itself when its turn comes"
    if state in ("running", "lost"):
        return f"run {run_id} is {state} and cannot be resumed: its files are gone"
    return f"run {run_id} is finished ({state}): `harness run` starts another"


def recorded_request(record: RunRecord) -> ResolvedRequest:
    """Return the recorded request, with its blueprint loaded again.

    Changes to the directory in which the run was started: the request may name paths in it.

    Raises:
        RunNotResumable: the blueprint or the directory is gone or has changed.
    """
    try:
        os.chdir(record.cwd)
        blueprint = find_blueprint(record.blueprint, repo=record.repo)
    except (OSError, HarnessError) as error:
        raise RunNotResumable(f"run {record.run_id} cannot be resumed: {error}") from error
    check_same_nodes(record, blueprint)
    return request_for(record, blueprint)


def request_for(record: RunRecord, blueprint: Blueprint) -> ResolvedRequest:
    """Return the recorded request with this blueprint."""
    given = {name: getattr(record, name) for name in RunRequest.model_fields}
    return ResolvedRequest(definition=blueprint, **given)


def check_same_nodes(record: RunRecord, blueprint: Blueprint) -> None:
    """Check that the blueprint has the recorded nodes: checkpoints store results by node name.

    Raises:
        RunNotResumable: names the nodes.
    """
    now = tuple(blueprint.all_names())
    if now != record.nodes:
        raise RunNotResumable(
            f"run {record.run_id} cannot be resumed: blueprint {record.blueprint!r} has changed. "
            f"Its nodes were {', '.join(record.nodes)} and are {', '.join(now)}"
        )
