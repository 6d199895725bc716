"""The ready operations over a sandbox without Docker, and an outside that only notes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.json import Json
from policy.authority import FileLabels
from policy.plan.models import model_operations
from policy.plan.operations import Mail, OutsideActions, outside_operations, workspace_operations
from policy.plan.registry import Registry
from sandbox.scripted import ScriptedSandbox

NO_LABELS = FileLabels()
LABELS = FileLabels(
    caps={"hr/**": frozenset({"share_with:bob"}), "*.pem": frozenset({"secret:key"})}
)


@dataclass
class Noted:
    """What left."""

    mails: list[Mail] = field(default_factory=list)
    pushes: list[tuple[str, str]] = field(default_factory=list)
    runs: list[tuple[str, str]] = field(default_factory=list)
    answer: str = "ann@example.com"

    def outside(self) -> OutsideActions:
        return OutsideActions(
            send=self.mails.append, push=self._push, run_blueprint=self._run, ask_person=self._ask
        )

    def _push(self, remote: str, branch: str) -> str:
        self.pushes.append((remote, branch))
        return "0" * 40

    def _run(self, blueprint: str, intent: str) -> Json:
        self.runs.append((blueprint, intent))
        return {"status": "success"}

    def _ask(self, _: str) -> str:
        return self.answer


def saying(replies: Sequence[str]) -> Complete:
    """A model that says these, one after the other."""
    left = list(replies)

    def complete(_: ChatRequest) -> Reply:
        return Reply(message=Message(role="assistant", content=left.pop(0)))

    return complete


def ready_registry(
    sandbox: ScriptedSandbox,
    noted: Noted,
    replies: Sequence[str] = (),
    labels: FileLabels = NO_LABELS,
) -> Registry:
    return Registry(
        [
            *workspace_operations(lambda: sandbox, labels, dict),
            *outside_operations(noted.outside(), labels),
            *model_operations(saying(replies), "a-model"),
        ]
    )
