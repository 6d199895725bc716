"""Asks a person about tool calls that the guard denies: each approval is for one exact call."""

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
from policy.types import ApprovalRequest

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

MAX_PENDING = 20
"""Requests of one run that may wait at a time, so that an agent cannot wear a person down."""

MAX_ARGUMENTS = 100_000
"""Characters of arguments that a person can still review."""

_WAITS = (
    "It waits for a person as approval {}. Continue with other work; once it is approved, "
    "repeat exactly the same call: it will be allowed once"
)


@dataclass(frozen=True, kw_only=True)
class ApprovalGuard:
    """The guard of one agent, with requests for approval of the calls that it denies.

    The same call may be decided about repeatedly. Until a person decides, the decision is a
    denial with the id of the pending approval. `redact` removes secrets from the arguments that
    the person sees.
    """

    guard: AgentGuard
    approvals: "Callable[[], Approvals]"
    run_id: str
    terms: TokenSpec
    redact: Callable[[str], str]

    def __call__(self, call: ToolCall) -> Decision:
        """Decide by the rules, or by a person's approval, which is used up by that."""
        decision = self.guard(call)
        if not isinstance(decision, Denied) or not decision.rule:
            return decision  # a denial without a rule is of a call that nobody can read
        try:
            return self._ask(call, decision)
        except (Unavailable, LogDamaged) as error:
            return replace(decision, approval_note=f"No approval could be requested: {error}")

    def _ask(self, call: ToolCall, denied: Denied) -> Decision:
        if len(call.arguments) > MAX_ARGUMENTS:
            return replace(
                denied, approval_note="It is too long for a person to review: do less at once"
            )
        approvals, request = self.approvals(), self._request(call, denied)
        pending = approvals.list(run_id=self.run_id, pending=True)
        # A known request may be asked again, or its approval could never be used.
        if len(pending) >= MAX_PENDING and not approvals.is_known(request):
            return replace(
                denied, approval_note=f"{MAX_PENDING} requests of this run are pending already"
            )
        reply = approvals.ask(request)
        match reply.status:
            # Consuming fails if a parallel request with the same call has used the approval.
            case "approved" if approvals.consume(request):
                self.guard.remember_allowed(call)
                return Allowed(lifted_denial=replace(denied, approval=reply.approval))
            case "denied":
                return replace(denied, approval_note=f"A person refused it: {reply.reason}")
            case _:
                waits = _WAITS.format(reply.approval)
                return replace(denied, approval=reply.approval, approval_note=waits)

    def _request(self, call: ToolCall, denied: Denied) -> ApprovalRequest:
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
            # An approval covers these denials, not another rule that the same call breaks later.
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
