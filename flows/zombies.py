"""The automation that calls a run crashed when its process died without a word.

Prefect's flow runs give a heartbeat; a self-hosted server does nothing when one fails to come
until somebody tells it to.
"""

from datetime import timedelta

from flows.server import asking

NAME = "harness: a run without heartbeat has crashed"
SILENCE_S = 450.0
"""Two and a half times as long as Prefect lets pass between two heartbeats by default."""

_ALIVE = "prefect.flow-run.heartbeat"
_ENDED = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
_RESTS = {f"prefect.flow-run.{state}" for state in ("Suspended", "Paused", "AwaitingRetry")}


def watch_for_zombies(api: str, *, silence_s: float = SILENCE_S) -> bool:
    """Make the automation; False when there is one already, which stays as people left it.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    with asking(api) as client:
        if client.read_automations_by_name(NAME):
            return False
        client.create_automation(
            AutomationCore(
                name=NAME,
                description="Made by `harness up`. Such a run goes on by `harness runs resume`.",
                trigger=EventTrigger(
                    after={_ALIVE},
                    expect={_ALIVE, *_ENDED, *_RESTS},
                    match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
                    for_each={"prefect.resource.id"},
                    posture=Posture.Proactive,
                    threshold=1,
                    within=timedelta(seconds=silence_s),
                ),
                actions=[
                    ChangeFlowRunState(
                        state=StateType.CRASHED,
                        name=None,
                        force=False,
                        message=f"No heartbeat for {silence_s:g} s: its process is gone.",
                    )
                ],
            )
        )
        return True
