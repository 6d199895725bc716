"""The automations that see to a run whose process, or whose worker, died without a word.

Prefect's flow runs give a heartbeat; a self-hosted server does nothing when one fails to come
until somebody tells it to. Nor does it with a run that a worker took and never began.
"""

from collections.abc import Mapping, Set
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from flows.services.prefect_client import prefect_client

if TYPE_CHECKING:
    from prefect.events.schemas.automations import AutomationCore

SILENCE_S = 450.0
"""Two and a half times as long as Prefect lets pass between two heartbeats by default."""

_ALIVE = "prefect.flow-run.heartbeat"
_TAKEN = {f"prefect.flow-run.{state}" for state in ("Pending", "Submitting")}
_BEGUN = {f"prefect.flow-run.{state}" for state in ("Running", "Scheduled", "AwaitingRetry")}
_ENDED = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
_RESTS = {f"prefect.flow-run.{state}" for state in ("Suspended", "Paused", "AwaitingRetry")}


class _Silence(NamedTuple):
    """After one of these events one of those is expected; else the run's state is changed."""

    name: str
    description: str
    after: Set[str]
    expect: Set[str]
    state: str
    message: str
    related: Mapping[str, str] = MappingProxyType({})


_SILENCES = (
    _Silence(
        name="harness: a run without heartbeat has crashed",
        description="Made by `harness up`. Such a run goes on by `harness runs resume`.",
        after={_ALIVE},
        expect={_ALIVE, *_ENDED, *_RESTS},
        state="CRASHED",
        message="No heartbeat for {:g} s: its process is gone.",
    ),
    _Silence(
        name="harness: a run that was taken and not begun is queued again",
        description="Made by `harness up`. The worker that took it died; the next one does it.",
        after=_TAKEN,
        expect={_ALIVE, *_BEGUN, *_ENDED, *_RESTS},
        state="SCHEDULED",
        message="Nobody began it for {:g} s: its worker is gone.",
        related={"prefect.resource.role": "deployment"},
    ),
)


def create_zombie_automations(api: str, *, silence_s: float = SILENCE_S) -> bool:
    """Make the automations; False when all are there already, which stay as people left them.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    with prefect_client(api) as client:
        missing = [one for one in _SILENCES if not client.read_automations_by_name(one.name)]
        for one in missing:
            client.create_automation(_automation(one, silence_s))
    return bool(missing)


def _automation(one: _Silence, silence_s: float) -> "AutomationCore":
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    return AutomationCore(
        name=one.name,
        description=one.description,
        trigger=EventTrigger(
            after=set(one.after),
            expect=set(one.expect),
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            match_related=ResourceSpecification(dict(one.related)),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=silence_s),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType(one.state),
                name=None,
                force=False,
                message=one.message.format(silence_s),
            )
        ],
    )
