"""Everything that `harness up` keeps on this machine: a list of kept processes, easy to extend."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from contracts.errors import Unavailable
from flows.config.memory import load_memory_settings
from flows.config.settings import Settings
from flows.execution.wiring import engine, owner
from flows.host import pool
from flows.services import daemon, gateway, local
from flows.services.chroma import chroma, is_ours
from flows.services.daemon import Kept, Running
from flows.services.deploy import deploy
from flows.services.pages import pages
from flows.services.receiver import receiver
from flows.services.worker import upkeep_worker, worker
from flows.services.zombies import watch_for_zombies
from sandbox.reap import reap

State = Literal[
    "started", "running", "outdated", "yours", "made", "there", "stopped", "swept", "unseen"
]
"""`running`, `there`: it was before. `yours`: it is configured, and never started or stopped.

`outdated`: it is at work with code, keys or settings of before; once idle, it is replaced.
`swept`: none is left. `unseen`: nobody could look.
"""


class Member(NamedTuple):
    """One thing that is kept, how it was found, and where it answers or what it said."""

    name: str
    state: State
    url: str = ""
    note: str = ""


def bring_up(settings: Settings, tell: Callable[[Member], None]) -> tuple[Member, ...]:
    """Start what does not run, deploy what is not deployed, and tell each as it is there.

    What dead runs left is removed before anything new can start a sandbox.

    Raises:
        Unavailable: one of them does not start; those before it stay up.
    """
    from flows.execution.end_state import set_noted_states  # with prefect, two seconds to import

    members: list[Member] = []

    def say(member: Member) -> None:
        members.append(member)
        tell(member)

    api = _server(settings, say)
    ui = local.ui_url(api)
    set_noted_states(settings.runs, api)
    deployed = deploy(api, settings)
    state: State = "made" if deployed.now else "there"
    say(Member("deployments", state, f"{ui}/deployments", "; ".join(deployed.notes)))
    made = watch_for_zombies(api)
    say(Member("zombie automation", "made" if made else "there", f"{ui}/automations"))
    for one in _unwanted(settings, api):
        daemon.down(one)
    for record in _of_earlier_versions(settings, api):
        daemon.stop_recorded(record)
        say(Member(record.stem, "stopped", note="no longer used"))
    say(_sweep(settings))
    for one in neighbours(settings, api):
        before = daemon.status(one)
        now = daemon.up(one)
        say(Member(one.name, _state(one, before, now), now.url))
    return tuple(members)


def _state(one: Kept, before: Running | None, now: Running) -> State:
    if before != now:
        return "started"
    return "running" if now.version == one.version() else "outdated"


def take_down(settings: Settings) -> tuple[Member, ...]:
    """Stop every daemon of this home, the server last.

    A configured server is not stopped. State on disk stays.
    """
    server = local.server(settings)
    beside = (*reversed(neighbours(settings, "")), *_unwanted(settings, ""))
    stopped = [one.name for one in beside if daemon.down(one)]
    # Gateways of runs with their own secrets, and daemons that only another version knows.
    others = [state for state in daemon.records(settings.home) if state != server.state]
    stopped += [state.stem for state in others if daemon.stop_recorded(state)]
    if daemon.down(server):
        stopped.append(server.name)
    return tuple(Member(name, "stopped") for name in stopped)


def _of_earlier_versions(settings: Settings, api: str) -> list[Path]:
    """State files of running daemons of a kind that this version does not start."""
    known = {"server", *(one.name for one, _ in _all(settings, api))}
    return [
        state
        for state in daemon.records(settings.home)
        if state.stem.partition("-")[0] not in known
    ]


def fallen(settings: Settings) -> tuple[Kept, ...]:
    """What was started and never stopped, but does not live any more."""
    kept_here = (local.server(settings), *neighbours(settings, ""))
    return tuple(one for one in kept_here if one.state.exists() and daemon.status(one) is None)


def neighbours(settings: Settings, api: str) -> tuple[Kept, ...]:
    """What is kept beside the Prefect server at `api`, in the order it is started."""
    return tuple(one for one, wanted in _all(settings, api) if wanted)


def _unwanted(settings: Settings, api: str) -> tuple[Kept, ...]:
    """What earlier settings may have kept, and these do not want."""
    return tuple(one for one, wanted in _all(settings, api) if not wanted)


def _all(settings: Settings, api: str) -> tuple[tuple[Kept, bool], ...]:
    """Everything there can be beside the server, and whether these settings want it."""
    chroma_url = load_memory_settings().chroma_url
    return (
        (gateway.process(settings), True),
        (chroma(settings, chroma_url), is_ours(chroma_url)),
        (pool.keeper(settings), settings.sandbox.pool_size > 0),
        (pages(settings), True),
        (receiver(settings), settings.webhooks.secret is not None),
        (worker(settings, api), True),
        (upkeep_worker(settings, api), True),
    )


def _sweep(settings: Settings) -> Member:
    """Remove what dead runs left; an engine that is away is no reason to stay down."""
    try:
        reaped = reap(engine(), owner(settings))
    except Unavailable as error:
        return Member("leftovers", "unseen", note=str(error))
    found = f"{len(reaped.containers)} containers, {len(reaped.snapshots)} snapshots"
    return Member("leftovers", "swept", note=found)


def _server(settings: Settings, say: Callable[[Member], None]) -> str:
    before = local.status(settings)
    api = local.api_url(settings)
    ours = local.status(settings)
    if ours is None or ours.url != api:
        say(Member("server", "yours", local.ui_url(api)))
    else:
        state = _state(local.server(settings), before, ours)
        say(Member("server", state, local.ui_url(api)))
    return api
