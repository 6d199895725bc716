"""Everything that `harness up` keeps on this machine: a list of kept processes, easy to extend."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from contracts.errors import Unavailable
from flows.config.memory import load_memory_settings
from flows.config.settings import Settings
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.host import pool
from flows.services import daemon, gateway, prefect_server
from flows.services.chroma import chroma_daemon, is_local_address
from flows.services.daemon import Daemon, RunningDaemon
from flows.services.deploy import deploy
from flows.services.pages import pages_daemon
from flows.services.receiver import receiver_daemon
from flows.services.worker import upkeep_worker_daemon, worker_daemon
from flows.services.zombies import create_zombie_automations
from sandbox.reap import reap

MemberState = Literal[
    "started", "running", "outdated", "yours", "made", "there", "stopped", "swept", "unseen"
]
"""`running`, `there`: it was before. `yours`: it is configured, and never started or stopped.

`outdated`: it is at work with code, keys or settings of before; once idle, it is replaced.
`swept`: none is left. `unseen`: nobody could look.
"""


class StackMember(NamedTuple):
    """One thing that is kept, how it was found, and where it answers or what it said."""

    name: str
    state: MemberState
    url: str = ""
    note: str = ""


def bring_up(settings: Settings, report: Callable[[StackMember], None]) -> tuple[StackMember, ...]:
    """Start what does not run, deploy what is not deployed, and tell each as it is there.

    What dead runs left is removed before anything new can start a sandbox.

    Raises:
        Unavailable: one of them does not start; those before it stay up.
    """
    from flows.execution.end_state import set_recorded_states  # with prefect, two seconds to import

    members: list[StackMember] = []

    def say(member: StackMember) -> None:
        members.append(member)
        report(member)

    api = _server(settings, say)
    ui = prefect_server.ui_url(api)
    set_recorded_states(settings.runs, api)
    deployed = deploy(api, settings)
    state: MemberState = "made" if deployed.changed else "there"
    say(StackMember("deployments", state, f"{ui}/deployments", "; ".join(deployed.notes)))
    made = create_zombie_automations(api)
    say(StackMember("zombie automation", "made" if made else "there", f"{ui}/automations"))
    for one in _unwanted(settings, api):
        daemon.down(one)
    for record in _of_earlier_versions(settings, api):
        daemon.stop_recorded(record)
        say(StackMember(record.stem, "stopped", note="no longer used"))
    say(_sweep(settings))
    for one in wanted_daemons(settings, api):
        before = daemon.status(one)
        now = daemon.up(one)
        say(StackMember(one.name, _state(one, before, now), now.url))
    return tuple(members)


def _state(one: Daemon, before: RunningDaemon | None, now: RunningDaemon) -> MemberState:
    if before != now:
        return "started"
    return "running" if now.version == one.version() else "outdated"


def take_down(settings: Settings) -> tuple[StackMember, ...]:
    """Stop every daemon of this home, the server last.

    A configured server is not stopped. State on disk stays.
    """
    server = prefect_server.server_daemon(settings)
    beside = (*reversed(wanted_daemons(settings, "")), *_unwanted(settings, ""))
    stopped = [one.name for one in beside if daemon.down(one)]
    # Gateways of runs with their own secrets, and daemons that only another version knows.
    others = [state for state in daemon.state_files(settings.home) if state != server.state_file]
    stopped += [state.stem for state in others if daemon.stop_recorded(state)]
    if daemon.down(server):
        stopped.append(server.name)
    return tuple(StackMember(name, "stopped") for name in stopped)


def _of_earlier_versions(settings: Settings, api: str) -> list[Path]:
    """State files of running daemons of a kind that this version does not start."""
    known = {"server", *(one.name for one, _ in _all(settings, api))}
    return [
        state
        for state in daemon.state_files(settings.home)
        if state.stem.partition("-")[0] not in known
    ]


def crashed_daemons(settings: Settings) -> tuple[Daemon, ...]:
    """What was started and never stopped, but does not live any more."""
    kept_here = (prefect_server.server_daemon(settings), *wanted_daemons(settings, ""))
    return tuple(one for one in kept_here if one.state_file.exists() and daemon.status(one) is None)


def wanted_daemons(settings: Settings, api: str) -> tuple[Daemon, ...]:
    """What is kept beside the Prefect server at `api`, in the order it is started."""
    return tuple(one for one, wanted in _all(settings, api) if wanted)


def _unwanted(settings: Settings, api: str) -> tuple[Daemon, ...]:
    """What earlier settings may have kept, and these do not want."""
    return tuple(one for one, wanted in _all(settings, api) if not wanted)


def _all(settings: Settings, api: str) -> tuple[tuple[Daemon, bool], ...]:
    """Everything there can be beside the server, and whether these settings want it."""
    chroma_url = load_memory_settings().chroma_url
    return (
        (gateway.gateway_daemon(settings), True),
        (chroma_daemon(settings, chroma_url), is_local_address(chroma_url)),
        (pool.pool_daemon(settings), settings.sandbox.pool_size > 0),
        (pages_daemon(settings), True),
        (receiver_daemon(settings), settings.webhooks.secret is not None),
        (worker_daemon(settings, api), True),
        (upkeep_worker_daemon(settings, api), True),
    )


def _sweep(settings: Settings) -> StackMember:
    """Remove what dead runs left; an engine that is away is no reason to stay down."""
    try:
        reaped = reap(docker_engine(), sandbox_owner(settings))
    except Unavailable as error:
        return StackMember("leftovers", "unseen", note=str(error))
    found = f"{len(reaped.containers)} containers, {len(reaped.snapshots)} snapshots"
    return StackMember("leftovers", "swept", note=found)


def _server(settings: Settings, say: Callable[[StackMember], None]) -> str:
    before = prefect_server.status(settings)
    api = prefect_server.api_url(settings)
    ours = prefect_server.status(settings)
    if ours is None or ours.url != api:
        say(StackMember("server", "yours", prefect_server.ui_url(api)))
    else:
        state = _state(prefect_server.server_daemon(settings), before, ours)
        say(StackMember("server", state, prefect_server.ui_url(api)))
    return api
