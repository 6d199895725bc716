"""`ask_person` where nobody sits at a terminal: the question waits among the approvals."""

from collections.abc import Callable

from contracts.json import json_digest
from contracts.tool import Denied
from policy.errors import OperationFailed, WaitingForPerson
from policy.plan.approval_request import ApprovalRequest
from policy.plan.approvals import Approvals
from policy.types import QUESTION_RULE


def ask_person_through(approvals: Approvals, run_id: str) -> Callable[[str], str]:
    """Takes a question and gives the words of whoever answered it, once.

    Raises (when called):
        PersonAwaited: nobody has answered yet.
        OperationFailed: they would not.
    """

    def ask(question: str) -> str:
        asked = ApprovalRequest(
            action=json_digest({"run": run_id, "op": "ask_person", "question": question}),
            run_id=run_id,
            step=0,
            op="ask_person",
            arguments={"question": question},
            denied=Denied(reason=f"a person is asked: {question}", rule=QUESTION_RULE),
        )
        said = approvals.ask(asked)
        if said.status == "denied":
            raise OperationFailed(f"nobody would answer: {said.reason}")
        if said.status != "approved" or not approvals.consume(asked):
            raise WaitingForPerson(f"approval {said.approval} waits for an answer to: {question}")
        return approvals.get(said.approval).reason

    return ask
