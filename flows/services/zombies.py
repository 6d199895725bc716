"""Automations of the Prefect server for runs whose process or worker died.

A flow run sends heartbeats, but a self-hosted server does nothing when they stop unless an
automation says so. The same holds for a run that a worker took and never began.
"""

from collections.abc import Mapping, Set
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from flows.services.prefect_server import prefect_client

if TYPE_CHECKING:
    from prefect.events.schemas.automations import AutomationCore

SILENCE_S = 450.0
"""Two and a half times Prefect's default interval between heartbeats."""

_HEARTBEAT = "prefect.flow-run.heartbeat"
_TAKEN = {f"prefect.flow-run.{state}" for state in ("Pending", "Submitting")}
_BEGUN = {f"prefect.flow-run.{state}" for state in ("Running", "Scheduled", "AwaitingRetry")}
_ENDED = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
_RESTING = {f"prefect.flow-run.{state}" for state in ("Suspended", "Paused", "AwaitingRetry")}


def create_zombie_automations(api: str, *, silence_s: float = SILENCE_S) -> bool:
    """Create the automations that are missing; False if none is. Users may edit or disable them.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    wanted = (
        _automation(
            name="harness: a run without heartbeat has crashed",
            description="Made by `harness up`. Resume such a run with `harness runs resume`.",
            after={_HEARTBEAT},
            expect={_HEARTBEAT, *_ENDED, *_RESTING},
            within_s=silence_s,
            state="CRASHED",
            message=f"No heartbeat for {silence_s:g} s: the process of the run has died.",
        ),
        _automation(
            name="harness: a run that was taken and not begun is queued again",
            description="Made by `harness up`. The worker that took it died; the next one takes "
            "it.",
            after=_TAKEN,
            expect={_HEARTBEAT, *_BEGUN, *_ENDED, *_RESTING},
            within_s=silence_s,
            state="SCHEDULED",
            message=f"Not begun for {silence_s:g} s: its worker has died.",
            # Only a worker can take it again; a `harness run` has no deployment.
            related={"prefect.resource.role": "deployment"},
        ),
    )
    with prefect_client(api) as client:
        missing = [one for one in wanted if not client.read_automations_by_name(one.name)]
        for automation in missing:
            created = client.create_automation(automation)
            # Another home may have created it at this moment: the server takes a name twice.
            newest_first = client.read_automations_by_name(automation.name)
            if newest_first[-1].id != created:
                client.delete_automation(created)
    return bool(missing)


def _automation(
    *,
    name: str,
    description: str,
    after: Set[str],
    expect: Set[str],
    within_s: float,
    state: Literal["CRASHED", "SCHEDULED"],
    message: str,
    related: Mapping[str, str] = MappingProxyType({}),
) -> "AutomationCore":
    """If no event of `expect` follows one of `after` in time, the run gets the state `state`."""
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    trigger = EventTrigger(
        after=set(after),
        expect=set(expect),
        match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        match_related=ResourceSpecification(dict(related)),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=within_s),
    )
    action = ChangeFlowRunState(state=StateType(state), name=None, force=False, message=message)
    return AutomationCore(name=name, description=description, trigger=trigger, actions=[action])
