"""The machines that work for one Prefect server, and which of them executes a run.

A machine is a `HARNESS_HOME` on a host, with one worker for runs and one for upkeep. `harness up`
records in a variable of the server which blueprints it may load, and the settings that must be the
same on all machines.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from blueprints.find import installed_names
from contracts.errors import SettingsInvalid
from flows.config.memory import load_memory_settings
from flows.config.policy import load_policy_settings
from flows.config.settings import Settings
from flows.runs.allowed import may_load
from flows.services.daemons import machine_name
from flows.services.deploy import UPKEEP_QUEUE, WORK_POOL
from flows.services.prefect_server import prefect_client

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun, Variable, Worker

WORKER_LABEL = "prefect.worker.name"
"""Label of a flow run with the name of the worker that took it last."""

DIED = "its machine died: it starts again on the next one"
"""Message of the state of such a flow run. Any machine may take it."""

GAP_S = 30.0
"""Seconds between two looks at the workers after which a `DeathWatch` begins anew."""

_VARIABLE = "harness_machine_"
_SHORT = 60
"""Longest value, in characters, that is recorded as it is; of others, a hash."""


class Machine(BaseModel, frozen=True, extra="ignore"):
    """The record of a machine on the Prefect server: its blueprints and the settings to compare."""

    name: str
    """Also that of its worker for runs."""
    installed: tuple[str, ...]
    allowed_blueprints: tuple[str, ...]
    settings: dict[str, str]

    def may_load(self, ref: str) -> bool:
        """Return True if its worker may load the blueprint."""
        return may_load(ref, self.allowed_blueprints, self.installed)


def this_machine(settings: Settings) -> Machine:
    """Return what this machine records."""
    return Machine(
        name=machine_name(settings),
        installed=installed_names(),
        allowed_blueprints=settings.allowed_blueprints,
        settings={name: _short(value) for name, value in _shared_settings(settings)},
    )


def join(api: str, machine: Machine) -> None:
    """Record the machine on the server, if it is set like those whose workers are online.

    Raises:
        SettingsInvalid: names the setting that differs, and the other machine.
        PrefectUnavailable: the server does not answer.
    """
    from prefect.client.schemas.actions import VariableCreate, VariableUpdate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    with prefect_client(api) as client:
        try:
            client.read_work_pool(WORK_POOL)  # the next request raises no ObjectNotFound
            workers = client.read_workers_for_work_pool(WORK_POOL)
        except ObjectNotFound:  # the first machine makes the pool
            workers = []
        online = {worker.name for worker in workers if worker.status == "ONLINE"}
        for other in recorded(client.read_variables()).values():
            if other.name in online and other.name != machine.name:
                _compare(machine, other)
        name = _VARIABLE + re.sub(r"[^a-z0-9]+", "_", machine.name.lower())
        value = machine.model_dump(mode="json")
        try:
            client.create_variable(VariableCreate(name=name, value=value))
        except ObjectAlreadyExists:
            client.update_variable(VariableUpdate(name=name, value=value))


def recorded(variables: "Iterable[Variable]") -> dict[str, Machine]:
    """Return the machines that these variables record, by name; one that was edited is left out."""
    found = {}
    for variable in variables:
        if variable.name.startswith(_VARIABLE):
            try:
                machine = Machine.model_validate(variable.value)
            except ValidationError:
                continue
            found[machine.name] = machine
    return found


def is_in_question(run: "FlowRun", machine: Machine, *, has_files: bool) -> bool:
    """Return True if the run may be one for another machine: then ask `why_left`."""
    ref = str(run.parameters.get("blueprint") or "")
    return _has_begun_elsewhere(run, machine, has_files) or bool(ref and not machine.may_load(ref))


def why_left(
    run: "FlowRun", machine: Machine, others: Mapping[str, Machine], *, has_files: bool
) -> str | None:
    """Return why this machine leaves a scheduled run to another one; None if it takes the run.

    A run that no recorded machine may execute is taken, and then fails with the reason.
    """
    worker = str(run.labels.get(WORKER_LABEL))
    if _has_begun_elsewhere(run, machine, has_files) and worker in others:
        return f"its files are on {worker}, which goes on with it"
    ref = str(run.parameters.get("blueprint") or "")
    if ref and not machine.may_load(ref):
        able = [name for name, one in others.items() if name != machine.name and one.may_load(ref)]
        if able:
            return f"it may not load {ref!r}, and {', '.join(sorted(able))} may"
    return None


class DeathWatch:
    """Tells which machines die while this one watches.

    A machine is dead if all its workers are silent in two looks, and one had sent a heartbeat since
    the watch began. A machine whose worker for upkeep is alive has only lost a process: its runs
    are executed. The watch begins anew after a time without a look: then the server was away, and
    the others have not reached it again yet.
    """

    def __init__(self, name: str) -> None:
        """Watch for the worker of this name."""
        self._name = name
        self._looked_s = -GAP_S
        self._since: datetime | None = None
        self._silent = frozenset[str]()

    def look(self, workers: "Iterable[Worker]", *, now_s: float) -> frozenset[str]:
        """Return the machines that are dead by these workers of the pool."""
        seen = list(workers)
        if self._since is None or now_s - self._looked_s > GAP_S:
            own = (worker.last_heartbeat_time for worker in seen if worker.name == self._name)
            self._since, self._silent = next(own, None), frozenset()
        self._looked_s = now_s
        alive = {_machine(worker) for worker in seen if worker.status == "ONLINE"}
        silent = frozenset(
            _machine(worker)
            for worker in seen
            if self._since and (worker.last_heartbeat_time or self._since) > self._since
        )
        before, self._silent = self._silent, silent - alive
        return before & self._silent


def takes_over(workers: "Iterable[Worker]", name: str) -> bool:
    """Return True for one of the machines that are online: the first by name."""
    online = (one.name for one in workers if one.status == "ONLINE" and one.name == _machine(one))
    return name == min(online, default="")


def taken_over(before: "FlowRun", now: "FlowRun") -> bool:
    """Return True if another worker has taken the flow run in between."""
    return before.labels.get(WORKER_LABEL) != now.labels.get(WORKER_LABEL)


def _machine(worker: "Worker") -> str:
    return worker.name.removesuffix(f"-{UPKEEP_QUEUE}")


def _has_begun_elsewhere(run: "FlowRun", machine: Machine, has_files: bool) -> bool:
    free = run.state is not None and run.state.message == DIED
    worker = run.labels.get(WORKER_LABEL, machine.name)
    return run.run_count > 0 and worker != machine.name and not has_files and not free


def _compare(here: Machine, there: Machine) -> None:
    names = {*here.settings, *there.settings}
    differing = sorted(n for n in names if here.settings.get(n) != there.settings.get(n))
    if not differing:
        return
    first, *more = differing
    also = f" ({', '.join(more)} differ too)" if more else ""
    raise SettingsInvalid(
        f"{first} is {here.settings.get(first)} here and {there.settings.get(first)} on "
        f"{there.name}, which works for the same Prefect server{also}. Set it alike, or run "
        "`harness down` on the other machines and wait a minute"
    )


def _shared_settings(settings: Settings) -> Iterator[tuple[str, object]]:
    """Yield what decides how a run goes, apart from the power of the machine and its keys."""
    yield "the version of Harness", version("harness")
    memory = load_memory_settings()
    yield "setting memory.data", _database(memory.data or "")
    embedding = memory.embedding.model_dump(include={"provider", "model", "dimensions"})
    yield "setting memory.embedding", embedding
    alike = {"agent", "model", "budget_usd", "budget_tokens", "context_tokens", "forges", "limits"}
    for name, value in settings.model_dump(mode="json", include=alike).items():
        yield f"setting {name}", value
    sandbox = {"image", "runtime", "egress", "egress_addresses", "install_network"}
    for name, value in settings.sandbox.model_dump(mode="json", include=sandbox).items():
        yield f"setting sandbox.{name}", value
    yield "setting agents", sorted(settings.agents)
    yield "setting mcp", sorted(settings.mcp)
    policy = load_policy_settings().model_dump(mode="json", exclude={"mail", "wait_approvals_s"})
    for name, value in policy.items():
        yield f"setting policy.{name}", _sorted(value)


def _database(data: str) -> str:
    """Return what can be compared of a database's address: machines may name its host in other
    ways, and the address may hold a password."""
    scheme, _, rest = data.partition("://")
    if not rest or scheme.startswith("sqlite"):
        return "a file"
    return f"{scheme.partition('+')[0]} {urlsplit(data).path.strip('/')}"


def _sorted(value: object) -> object:
    """Sort lists at any depth: sets of the settings come in any order."""
    match value:
        case list():
            return sorted((_sorted(one) for one in value), key=str)
        case dict():
            return {key: _sorted(one) for key, one in value.items()}
        case _:
            return value


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _SHORT else f"sha256:{sha256(text.encode()).hexdigest()[:16]}"
