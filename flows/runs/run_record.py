"""What a run was asked, and by which process it is done."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from contracts.errors import RunDamaged, RunNotResumable
from flows.runs.home import write_in_home
from flows.runs.layout import ASKED, REPORT
from flows.runs.request import FlowRun, RunRequest
from sandbox.process import process_label


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run as it was asked for. `nodes` are the blueprint's, `cwd` is where it was begun.

    `process` tells which process does it, or did it last; `suspends` whether its flow run waits
    for a person by itself; `queued` that it has not begun, for it waits for its turn.
    """

    run_id: str
    blueprint: str
    repo: str
    intent: str
    started_at: str
    process: str
    flow_run_id: str | None = None
    suspends: bool = False
    queued: bool = False
    blueprint_ref: str = ""
    nodes: tuple[str, ...] = ()
    ref: str | None = None
    agent: str = "native"
    model: str = ""
    push: bool = False
    budget_usd: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    company: str | None = None
    intent_from: str = ""
    cwd: str = "/"


def write_asked(
    folder: Path,
    run_id: str,
    request: RunRequest,
    flow_run: FlowRun | None,
    *,
    queued: bool = False,
) -> Path:
    """Make the run's own folder and note there what was asked, by which process.

    A run that goes on is noted again, as begun when it was begun first.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    known = read_asked(own)
    asked = Asked(
        run_id=run_id,
        blueprint=request.blueprint.name,
        blueprint_ref=request.blueprint_ref or request.blueprint.name,
        nodes=tuple(request.blueprint.all_names()),
        repo=request.repo,
        intent=request.intent,
        ref=request.ref,
        agent=request.agent,
        model=request.model,
        push=request.push,
        budget_usd=request.budget_usd,
        options=dict(request.options),
        user=request.user,
        company=request.company,
        intent_from=request.intent_from,
        flow_run_id=flow_run.id if flow_run else None,
        suspends=flow_run is not None and flow_run.suspends,
        queued=queued,
        started_at=known.started_at if known else datetime.now(UTC).isoformat(timespec="seconds"),
        process=process_label(os.getpid()),
        cwd=known.cwd if known else str(Path.cwd()),
    )
    write_in_home(own / ASKED, json.dumps(asdict(asked), indent=2), run_id=run_id)
    (own / REPORT).unlink(missing_ok=True)
    return own


def read_asked(own: Path) -> Asked | None:
    """What `write_asked` noted in a run's folder; None when it noted nothing.

    Raises:
        RunDamaged: it cannot be read.
    """
    path = own / ASKED
    try:
        return adapter().validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDamaged(
            f"run {own.name} is damaged: {path} is not what Harness wrote. Remove {own}, or put "
            "back a copy of it"
        ) from error


def check_own(own: Path, flow_run_id: str) -> None:
    """Refuse a flow run whose run id, the end of its own, is another run's already.

    Raises:
        RunNotResumable: names that run.
    """
    asked = read_asked(own)
    if asked is not None and asked.flow_run_id != flow_run_id:
        raise RunNotResumable(
            f"run id {own.name} is taken, by a run of {asked.blueprint!r} begun at "
            f"{asked.started_at} whose flow run {asked.flow_run_id} ends in the same digits. "
            "Nothing was done: start it again as a new flow run, which has another id"
        )


@cache
def adapter() -> TypeAdapter[Asked]:
    """To JSON and back; made once, which takes 20 ms."""
    return TypeAdapter(Asked)
