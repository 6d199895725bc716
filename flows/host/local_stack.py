"""The local stack: everything that `harness up` runs on this machine."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from contracts.errors import Unavailable
from flows.config.memory import load_memory_settings
from flows.config.settings import Settings
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.host.command_forks import stop_servers
from flows.services import daemon, gateway, prefect_server
from flows.services.daemon import Daemon, RunningDaemon
from flows.services.daemons import (
    chroma_daemon,
    is_local_address,
    pages_daemon,
    receiver_daemon,
    upkeep_worker_daemon,
    worker_daemon,
)
from flows.services.deploy import deploy
from flows.services.machines import join, this_machine
from flows.services.user_deployments import make_configured
from flows.services.zombies import create_zombie_automations
from sandbox.reap import reap

MemberState = Literal[
    "started", "running", "outdated", "yours", "made", "there", "stopped", "swept", "unseen"
]
"""`running`, `there`: it was before. `yours`: it is configured, and never started or stopped.

`outdated`: it is busy, with earlier code, keys or settings; it is replaced once idle. `swept`:
nothing is left over. `unseen`: the Docker engine could not be asked.
"""


class StackMember(NamedTuple):
    """One member of the stack: its state, where it answers, and a note."""

    name: str
    state: MemberState
    url: str = ""
    note: str = ""


def bring_up(settings: Settings, report: Callable[[StackMember], None]) -> tuple[StackMember, ...]:
    """Start what does not run, create what is missing, and report each member when it is ready.

    Leftovers of dead runs are removed before a worker can start a new sandbox.

    Raises:
        SettingsInvalid: a table [deployments.NAME] cannot be used, or this machine is set
            otherwise than another one that works for the same server.
        Unavailable: one member does not start; the members before it stay up.
    """
    from flows.deployed import configured_deployments  # with prefect: two seconds to import
    from flows.execution.end_state import set_recorded_states

    configured = configured_deployments(settings)
    members: list[StackMember] = []

    def add(member: StackMember) -> None:
        members.append(member)
        report(member)

    # The order: deployments need the server, and a worker takes runs as soon as it is up.
    server_before = prefect_server.server_daemon(settings).status()
    api = prefect_server.api_url(settings)
    ui = prefect_server.ui_url(api)
    add(_server(settings, api, server_before))
    join(api, this_machine(settings))
    set_recorded_states(settings.runs, api)
    deployed = deploy(api)
    state: MemberState = "made" if deployed.changed else "there"
    if made := make_configured(api, configured):
        state = "made"
        deployed = deployed._replace(notes=(*deployed.notes, f"of the settings: {', '.join(made)}"))
    add(StackMember("deployments", state, f"{ui}/deployments", "; ".join(deployed.notes)))
    created = create_zombie_automations(api)
    add(StackMember("zombie automation", "made" if created else "there", f"{ui}/automations"))
    wanted = wanted_daemons(settings, api)
    names = {"server", *(one.name for one in wanted)}
    for record in daemon.state_files(settings.home):
        if record.stem.partition("-")[0] not in names:  # unwanted now, or of an earlier version
            daemon.stop_recorded(record)
            add(StackMember(record.stem, "stopped", note="no longer used"))
    add(_remove_leftovers(settings))
    for one in wanted:
        before = one.status()
        if before is None and one.fixed_url and one.healthy(one.fixed_url):
            add(StackMember(one.name, "yours", one.fixed_url))
            continue
        now = one.up()
        add(StackMember(one.name, _state(one, before, now), now.url))
    return tuple(members)


def take_down(settings: Settings) -> tuple[StackMember, ...]:
    """Stop every daemon of this home, the server last; state on disk stays.

    A configured server is not stopped.
    """
    server = prefect_server.server_daemon(settings)
    stopped = [one.name for one in reversed(wanted_daemons(settings, "")) if one.down()]
    # Gateways of runs with their own secrets, and daemons of other settings and versions.
    others = [file for file in daemon.state_files(settings.home) if file != server.state_file]
    stopped += [file.stem for file in others if daemon.stop_recorded(file)]
    if server.down():
        stopped.append(server.name)
    if stop_servers():
        stopped.append("fork server")
    return tuple(StackMember(name, "stopped") for name in stopped)


def crashed_daemons(settings: Settings) -> tuple[Daemon, ...]:
    """Return the daemons that were started and not stopped, and whose process is dead."""
    daemons = (prefect_server.server_daemon(settings), *wanted_daemons(settings, ""))
    return tuple(one for one in daemons if one.state_file.exists() and one.status() is None)


def wanted_daemons(settings: Settings, api: str) -> tuple[Daemon, ...]:
    """Return the daemons that run beside the Prefect server at `api`, in starting order."""
    chroma_url = load_memory_settings().chroma_url
    known = (
        (gateway.gateway_daemon(settings), True),
        (chroma_daemon(settings, chroma_url), is_local_address(chroma_url)),
        (pages_daemon(settings), True),
        (receiver_daemon(settings), settings.webhooks.secret is not None),
        (worker_daemon(settings, api), True),
        (upkeep_worker_daemon(settings, api), True),
    )
    return tuple(one for one, wanted in known if wanted)


def _server(settings: Settings, api: str, before: RunningDaemon | None) -> StackMember:
    local = prefect_server.server_daemon(settings).status()
    url = prefect_server.ui_url(api)
    if local is None or local.url != api:
        return StackMember("server", "yours", url)
    return StackMember("server", _state(prefect_server.server_daemon(settings), before, local), url)


def _state(one: Daemon, before: RunningDaemon | None, now: RunningDaemon) -> MemberState:
    if before != now:
        return "started"
    return "running" if now.version == one.version() else "outdated"


def _remove_leftovers(settings: Settings) -> StackMember:
    try:
        reaped = reap(docker_engine(), sandbox_owner(settings))
    except Unavailable as error:  # everything else works without the engine
        return StackMember("leftovers", "unseen", note=str(error))
    found = f"{len(reaped.containers)} containers, {len(reaped.snapshots)} snapshots"
    return StackMember("leftovers", "swept", note=found)
