"""Automations of the Prefect server for runs whose process or worker died.

A flow run sends heartbeats, but a self-hosted server does nothing when they stop unless an
automation says so. The same holds for a run that a worker took and never began.
"""

from collections.abc import Mapping, Set
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from flows.services.prefect_client import prefect_client

if TYPE_CHECKING:
    from prefect.events.schemas.automations import AutomationCore

SILENCE_S = 450.0
"""Two and a half times Prefect's default interval between heartbeats."""

_HEARTBEAT = "prefect.flow-run.heartbeat"
_TAKEN = {f"prefect.flow-run.{state}" for state in ("Pending", "Submitting")}
_BEGUN = {f"prefect.flow-run.{state}" for state in ("Running", "Scheduled", "AwaitingRetry")}
_ENDED = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
_RESTING = {f"prefect.flow-run.{state}" for state in ("Suspended", "Paused", "AwaitingRetry")}


class _Rule(NamedTuple):
    """If none of `expect` follows an event of `after` in time, the run gets the state `state`."""

    name: str
    description: str
    after: Set[str]
    expect: Set[str]
    state: str
    message: str
    related: Mapping[str, str] = MappingProxyType({})


_RULES = (
    _Rule(
        name="harness: a run without heartbeat has crashed",
        description="Made by `harness up`. Resume such a run with `harness runs resume`.",
        after={_HEARTBEAT},
        expect={_HEARTBEAT, *_ENDED, *_RESTING},
        state="CRASHED",
        message="No heartbeat for {:g} s: the process of the run has died.",
    ),
    _Rule(
        name="harness: a run that was taken and not begun is queued again",
        description="Made by `harness up`. The worker that took it died; the next one takes it.",
        after=_TAKEN,
        expect={_HEARTBEAT, *_BEGUN, *_ENDED, *_RESTING},
        state="SCHEDULED",
        message="Not begun for {:g} s: its worker has died.",
        related={"prefect.resource.role": "deployment"},
    ),
)


def create_zombie_automations(api: str, *, silence_s: float = SILENCE_S) -> bool:
    """Create the automations that are missing; False if none is. Users may edit or disable them.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    with prefect_client(api) as client:
        missing = [rule for rule in _RULES if not client.read_automations_by_name(rule.name)]
        for rule in missing:
            client.create_automation(_automation(rule, silence_s))
    return bool(missing)


def _automation(rule: _Rule, silence_s: float) -> "AutomationCore":
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    state = ChangeFlowRunState(
        state=StateType(rule.state),
        name=None,
        force=False,
        message=rule.message.format(silence_s),
    )
    trigger = EventTrigger(
        after=set(rule.after),
        expect=set(rule.expect),
        match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        match_related=ResourceSpecification(dict(rule.related)),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=silence_s),
    )
    return AutomationCore(
        name=rule.name, description=rule.description, trigger=trigger, actions=[state]
    )
