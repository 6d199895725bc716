"""The kinds of death: what is killed at which moment of a run, and how the run then goes on.

Each kind is a function of a stage and a moment (seconds into the run). It starts a run, kills,
has the run go on as a person would, and gives the run with what was finished when it died.
"""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import NamedTuple
from uuid import UUID

from docker.errors import NotFound

from benchmarks.chaos.stage import Process, Stage, wait_for
from flows.execution.wiring import sandbox_owner
from flows.runs.checkpoint import read
from flows.runs.home import CHECKPOINT, RECORD, REPORT
from flows.runs.run_record import read_record
from flows.services import gateway, prefect_server
from flows.services.daemon import RunningDaemon
from flows.services.daemons import chroma_daemon, worker_daemon
from flows.services.deploy import start_deployment
from flows.services.prefect_server import prefect_client
from sandbox.engine import DockerEngine
from sandbox.reap import list_sandboxes

SIX = "chaos/six_nodes.py:six_nodes"

TRIES = 4
"""How often a run may be told to go on: a kill may hit what comes up again slowly."""

PATIENCE_S = 180.0
"""How long a worker may take over one run."""

SETTLE_S = 8.0
"""How long nobody is seen to do a run before it counts as left: its process may just begin."""


class Death(NamedTuple):
    """A run whose time a kill cut: `noted` lines of the log were there when it died."""

    run_id: str
    finished: frozenset[str]
    noted: int


Kill = Callable[[Stage, float], Death]
Strike = Callable[[Stage, Process], None]


def over(made: Stage, run_id: str) -> bool:
    """Whether the run has come to its end."""
    folder = made.settings.runs / run_id
    return (folder / REPORT).exists() and not (folder / CHECKPOINT).exists()


def _of_command(strike: Strike, mend: Callable[[Stage], None] | None = None) -> Kill:
    """A run of the command line, which then goes on by `harness runs resume`."""

    def kill(made: Stage, at_s: float) -> Death:
        run_id = token_hex(4)
        with made.start(run_id, SIX) as process:
            wait_for(made.settings.runs / run_id / RECORD, process)
            sleep(at_s)
            strike(made, process)
            process.wait(timeout=300)
        death = _death(made, run_id)
        if mend is not None:
            mend(made)
        for _ in range(TRIES):
            if not over(made, run_id):
                with _again(made, run_id) as process:
                    process.wait(timeout=300)
        return death

    return kill


def _again(made: Stage, run_id: str) -> Process:
    """Go on with the run; one that the command line refused to begin is asked for anew."""
    if (made.settings.runs / run_id / RECORD).exists():
        return made.command("runs", "resume", run_id, "--json")
    return made.start(run_id, SIX)


def _of_worker(made: Stage, at_s: float, *, with_all: bool) -> Death:
    """A run of the worker, which then goes on by the UI's *Retry*.

    What `harness up` has a server do with a run that is silent for minutes is done at once.
    """
    api = prefect_server.server_daemon(made.settings).up().url
    flow_run = start_deployment(api, "run-blueprint", made.ask(SIX))
    run_id = flow_run[-8:]
    sleep(at_s)
    running = worker_daemon(made.settings, api).status()
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)
    for pid in _at_work(flow_run) if with_all else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    made.up()
    death = _death(made, run_id)
    for number in range(TRIES):
        _until_left(api, flow_run)
        if number == 0:
            death = _death(made, run_id)
        if over(made, run_id):
            break
        _retry(api, flow_run)
    return death


def _death(made: Stage, run_id: str) -> Death:
    """What was finished; all of it when the run is over."""
    noted = len(made.log.read_text().splitlines())
    folder = made.settings.runs / run_id
    asked = read_record(folder)
    if asked is None:
        return Death(run_id, frozenset(), noted)
    now = read(folder, asked.repo)
    return Death(run_id, frozenset(asked.nodes if now is None else now.results), noted)


def _until_left(api: str, flow_run: str) -> None:
    """Wait until nobody does the flow run any more, nor is about to."""
    give_up = monotonic() + PATIENCE_S
    left_since = monotonic()
    with prefect_client(api) as client:
        while monotonic() < min(give_up, left_since + SETTLE_S):
            state = client.read_flow_run(UUID(flow_run)).state
            if _at_work(flow_run) or (state is not None and state.is_scheduled()):
                left_since = monotonic()
            sleep(0.2)


def _retry(api: str, flow_run: str) -> None:
    from prefect.states import AwaitingRetry, Crashed

    with prefect_client(api) as client:
        client.set_flow_run_state(UUID(flow_run), Crashed(), force=True)
        client.set_flow_run_state(UUID(flow_run), AwaitingRetry(), force=True)


def _at_work(flow_run: str) -> list[int]:
    """The living processes that do this flow run; a gateway may have its name from it too."""
    wanted = f"PREFECT__FLOW_RUN_ID={flow_run}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            doing = b"flows.host.run_process" in (path / "cmdline").read_bytes().split(b"\0")
            if doing and wanted in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def _flow(_: Stage, process: Process) -> None:
    process.kill()


def _engine(made: Stage, _: Process) -> None:
    if made.engine is not None:
        made.engine.end(signal.SIGKILL)


def _engine_again(made: Stage) -> None:
    if made.engine is not None:
        made.engine.start()


def _supervisor(made: Stage, _: Process) -> None:
    """Kill the first process of each container, under which all commands run."""
    engine = DockerEngine()
    for sandbox in list_sandboxes(engine, sandbox_owner(made.settings)):
        with suppress(NotFound, ProcessLookupError), engine.client("find the supervisor") as client:
            pid = client.api.inspect_container(sandbox.id)["State"]["Pid"]
            if pid:  # 0 while it starts
                os.kill(pid, signal.SIGKILL)


def _daemon(which: Callable[[Stage], RunningDaemon | None]) -> Strike:
    def strike(made: Stage, _: Process) -> None:
        running = which(made)
        if running is not None:
            os.kill(running.pid, signal.SIGKILL)

    return strike


KILLS: Mapping[str, Kill] = {
    "flow": _of_command(_flow),
    "worker": partial(_of_worker, with_all=False),
    "machine": partial(_of_worker, with_all=True),
    "engine": _of_command(_engine, _engine_again),
    "supervisor": _of_command(_supervisor),
    "server": _of_command(
        _daemon(lambda made: prefect_server.server_daemon(made.settings).status()), Stage.up
    ),
    "chroma": _of_command(
        _daemon(lambda made: chroma_daemon(made.settings, made.chroma).status()), Stage.up
    ),
    "gateway": _of_command(_daemon(lambda made: gateway.gateway_daemon(made.settings).status())),
}
"""`machine` is the worker and all that it does, killed at once."""
