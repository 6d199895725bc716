"""Everything that `harness up` keeps on this machine: a list of kept processes, easy to extend."""

from collections.abc import Callable
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
from flows.services.metrics import metrics
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
    from flows.execution.end_state import (
        set_noted_states,  # imports prefect, which takes two seconds
    )

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
    """Stop what is ours, the server last; what is configured stays, and so does all state."""
    beside = (*reversed(neighbours(settings, "")), *_unwanted(settings, ""))
    ours = (*beside, *_gateways(settings), local.server(settings))
    return tuple(Member(one.name, "stopped") for one in ours if daemon.down(one))


def _gateways(settings: Settings) -> tuple[Kept, ...]:
    """Gateways of runs with secrets of their own; each ends with its run unless that died."""
    names = sorted(path.name for path in settings.home.glob("gateway-*"))
    return tuple(gateway.process(settings.model_copy(update={"gateway": name})) for name in names)


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
        (metrics(settings), True),
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
    found = f"{len(reaped.containers)} containers, {len(reaped.images)} snapshots"
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
