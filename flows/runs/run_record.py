"""`run.json`: the request of a run, and the process that executes it."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, model_validator

from contracts.errors import RunDamaged, RunNotResumable
from flows.runs.home import write_in_home
from flows.runs.layout import ASKED, REPORT
from flows.runs.request import FlowRun, ResolvedRequest, RunRequest
from sandbox.process_label import process_label


class RunRecord(RunRequest):
    """A run's resolved request, and the process that executes it.

    `name` and `nodes` are the blueprint's; `cwd` is the directory where the run was started.
    `process` executes the run or was the last to do so. A run whose flow run `suspends` waits for a
    person without a process. A `queued` run has not started.
    """

    # Fields that a later version adds do not stop this one from listing the run.
    model_config = ConfigDict(extra="ignore")

    version: Literal[2] = 2
    run_id: str
    name: str
    started_at: str
    process: str
    flow_run_id: str | None = None
    suspends: bool = False
    queued: bool = False
    nodes: tuple[str, ...] = ()
    cwd: str = "/"

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, data: Any) -> Any:
        """Read the first version: `blueprint` was the name only, and texts could be null."""
        if not isinstance(data, dict) or "name" in data:
            return data
        name = data.get("blueprint", "")
        known = {key: value for key, value in data.items() if value is not None}
        return {**known, "name": name, "blueprint": data.get("blueprint_ref") or name}


def write_record(
    folder: Path,
    run_id: str,
    request: ResolvedRequest,
    flow_run: FlowRun | None,
    *,
    queued: bool = False,
) -> Path:
    """Write the record into the run's folder, which is created, and return the folder.

    A resumed run keeps the start time and the directory of its first record.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    known = read_record(own)
    record = RunRecord(
        **request.model_dump(),
        run_id=run_id,
        name=request.definition.name,
        nodes=tuple(request.definition.all_names()),
        flow_run_id=flow_run.id if flow_run else None,
        suspends=flow_run is not None and flow_run.suspends,
        queued=queued,
        started_at=known.started_at if known else datetime.now(UTC).isoformat(timespec="seconds"),
        process=process_label(os.getpid()),
        cwd=known.cwd if known else str(Path.cwd()),
    )
    write_in_home(own / ASKED, record.model_dump_json(indent=2), run_id=run_id)
    (own / REPORT).unlink(missing_ok=True)
    return own


def read_record(own: Path) -> RunRecord | None:
    """Read the record in a run's folder; None if there is none.

    Raises:
        RunDamaged: the file cannot be read.
    """
    path = own / ASKED
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDamaged(
            f"run {own.name} is damaged: {path} is not what Harness wrote. Remove {own}, or put "
            "back a copy of it"
        ) from error


def check_run_id(own: Path, flow_run_id: str) -> None:
    """Refuse a flow run whose run id (the end of its own id) belongs to another flow run.

    Raises:
        RunNotResumable: names the other run.
    """
    record = read_record(own)
    if record is not None and record.flow_run_id != flow_run_id:
        raise RunNotResumable(
            f"run id {own.name} is taken, by a run of {record.name!r} begun at "
            f"{record.started_at} whose flow run {record.flow_run_id} ends in the same digits. "
            "Nothing was done: start it again as a new flow run, which has another id"
        )
