"""What the guard denies an agent, put to a person: about exactly this call, once."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from contracts.errors import Unavailable
from contracts.json import Json, canonical_json, json_digest
from contracts.model_access import TokenSpec
from contracts.run import without_attempt
from contracts.tool import Allowed, Decision, Denied, ToolCall
from policy.errors import LogDamaged
from policy.guard.guard import GUARD_VERSION, AgentGuard, parsed_arguments
from policy.plan.approval_request import ApprovalRequest

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

MAX_PENDING = 20
"""Questions of one run that may wait at a time: a person is not to be worn down."""

MAX_ARGUMENTS = 100_000
"""Characters of arguments that a person could still look at."""

_WAITS = (
    "It waits for a person as approval {}. Go on with what else is to be done; once it is "
    "approved, exactly the same call goes through, once"
)


@dataclass(frozen=True, kw_only=True)
class ApprovalGuard:
    """The guard of one agent, which puts what it denies to a person.

    It may be asked about the same call again and again: while nobody has decided it gives the
    denial, with the id of the approval that waits. `redact` is for what a person is shown.
    """

    guard: AgentGuard
    approvals: "Callable[[], Approvals]"
    run_id: str
    terms: TokenSpec
    redact: Callable[[str], str]

    def __call__(self, call: ToolCall) -> Decision:
        """Decide, by the rules or by the person's word; an approval is used up by that."""
        decision = self.guard(call)
        if not isinstance(decision, Denied) or not decision.rule:
            return decision  # what breaks no rule cannot be looked at by a person either
        try:
            return self._asked(call, decision)
        except (Unavailable, LogDamaged) as error:
            return replace(decision, approval_note=f"Nobody could be asked: {error}")

    def _asked(self, call: ToolCall, denied: Denied) -> Decision:
        if len(call.arguments) > MAX_ARGUMENTS:
            return replace(
                denied, approval_note="It is too long for anybody to look at: do less at once"
            )
        approvals, question = self.approvals(), self._question(call, denied)
        if not approvals.is_known(question) and self._too_many(approvals):
            return replace(
                denied, approval_note=f"{MAX_PENDING} questions of this run wait already"
            )
        answer = approvals.ask(question)
        match answer.status:
            case "approved" if approvals.consume(question):
                self.guard.remember_allowed(call)
                return Allowed(lifted_denial=replace(denied, approval=answer.approval))
            case "denied":
                return replace(denied, approval_note=f"A person refused it: {answer.reason}")
            case _:
                waits = _WAITS.format(answer.approval)
                return replace(denied, approval=answer.approval, approval_note=waits)

    def _too_many(self, approvals: "Approvals") -> bool:
        return len(approvals.list(run_id=self.run_id, pending=True)) >= MAX_PENDING

    def _question(self, call: ToolCall, denied: Denied) -> ApprovalRequest:
        arguments = parsed_arguments(call)
        node = without_attempt(self.terms.node)
        label = self.guard.label
        action: dict[str, Json] = {
            "node": node,
            "agent": self.terms.agent,
            "tool": call.name,
            "arguments": canonical_json(arguments),
            "caps": sorted(label.caps),
            "taint": sorted(label.taint),
            "denied": [[one.rule, one.argument, sorted(one.tags)] for one in denied.denials],
            "policy": GUARD_VERSION,
        }
        return ApprovalRequest(
            action=json_digest(action),
            run_id=self.run_id,
            step=0,
            op=call.name,
            arguments=json.loads(self.redact(json.dumps(arguments, ensure_ascii=False))),
            denied=denied,
            node=node,
            agent=self.terms.agent,
        )
