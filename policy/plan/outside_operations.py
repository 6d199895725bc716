"""Operations that leave the sandbox: mail, pushes, whole runs, and questions to a person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from contracts.json import Json, json_digest
from contracts.tool import Denied
from policy.errors import OperationFailed, WaitingForPerson
from policy.file_labels import FileLabels
from policy.plan.registry import Operation, operation
from policy.plan.workspace_operations import WORKSPACE, to_text
from policy.types import QUESTION_RULE, ApprovalRequest

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One mail; each string in `to` and `cc` is one address."""

    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    subject: str = ""
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class OutsideActions:
    """The actions behind the operations; each raises a HarnessError if it fails."""

    send: Callable[[Mail], None]
    push: Callable[[str, str], str]
    """Takes a remote and a branch; returns the pushed commit."""
    run_blueprint: Callable[[str, str], Json]
    """Takes the name of a blueprint and an intent; returns the run's report."""
    ask_person: Callable[[str], str]
    """Takes a question; returns the person's answer."""


def outside_operations(actions: OutsideActions, labels: FileLabels) -> tuple[Operation, ...]:
    """Return the operations; the report of a run has the tags of all files."""

    @operation(effect="egress", requires=["SEND_EMAIL"])
    def send_email(
        to: Annotated[str | list[str], "recipient"],
        subject: Annotated[str, "content"],
        body: Annotated[object, "content"],
        cc: Annotated[str | list[str] | None, "recipient"] = None,
    ) -> Json:
        """Send one mail; body may be a text or any result."""
        mail = Mail(to=_addresses(to), cc=_addresses(cc), subject=subject, body=to_text(body))
        actions.send(mail)
        return {"sent_to": [*mail.to, *mail.cc]}

    @operation(effect="egress", requires=["GIT_PUSH"], place=WORKSPACE)
    def git_push(remote: Annotated[str, "recipient"], branch: Annotated[str, "authority"]) -> Json:
        """Push what is committed in the workspace as this branch of this remote."""
        return {"commit": actions.push(remote, branch)}

    @operation(
        effect="write",
        requires=["RUN_BLUEPRINT"],
        label_of=lambda _: labels.all_labels,
        place=WORKSPACE,
    )
    def run_blueprint(
        blueprint: Annotated[str, "authority"], intent: Annotated[str, "authority"]
    ) -> Json:
        """Run a blueprint on the repository with this intent; gives its report."""
        return actions.run_blueprint(blueprint, intent)

    @operation(effect="read", requires=["ASK_PERSON"], vouched=True)
    def ask_person(question: Annotated[object, "content"]) -> Json:
        """Ask the person that the plan is for; their own words are trusted."""
        return actions.ask_person(to_text(question))

    return (send_email, git_push, run_blueprint, ask_person)


def ask_person_through(approvals: "Approvals", run_id: str) -> Callable[[str], str]:
    """Return a function that asks a question as an approval and returns the answer, once.

    Raises (when called):
        WaitingForPerson: nobody has answered yet.
        OperationFailed: the person refused to answer.
    """

    def ask(question: str) -> str:
        request = ApprovalRequest(
            action=json_digest({"run": run_id, "op": "ask_person", "question": question}),
            run_id=run_id,
            step=0,
            op="ask_person",
            arguments={"question": question},
            denied=Denied(reason=f"a person is asked: {question}", rule=QUESTION_RULE),
        )
        reply = approvals.ask(request)
        if reply.status == "denied":
            raise OperationFailed(f"the person refused to answer: {reply.reason}")
        if reply.status != "approved" or not approvals.consume(request):
            raise WaitingForPerson(f"approval {reply.approval} waits for an answer to: {question}")
        return approvals.get(reply.approval).reason

    return ask


def _addresses(argument: str | Sequence[str] | None) -> tuple[str, ...]:
    if argument is None:
        return ()
    return (argument,) if isinstance(argument, str) else tuple(argument)
