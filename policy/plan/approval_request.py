"""The question to a person when the policy denies a step, and the answer to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from contracts.json import Json
from contracts.tool import Denied


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """May this one action be done all the same? `action` names it and no other.

    It is of a plan's step, or else of the `agent` of a `node`.
    """

    action: str
    run_id: str
    step: int
    op: str
    arguments: Mapping[str, Json]
    denied: Denied
    node: str = ""
    agent: str = ""


@dataclass(frozen=True, kw_only=True)
class ApprovalReply:
    """What a person says. `waiting` means nobody has answered yet; `approval` is its id."""

    status: Literal["approved", "denied", "waiting"]
    by: str = ""
    reason: str = ""
    approval: str = ""


@dataclass(frozen=True)
class Approver:
    """Whoever answers. `ask` may be called often, `use` once, just before the action is done.

    `use` gives False when the approval is not there any more: used, expired or taken back.
    """

    ask: Callable[[ApprovalRequest], ApprovalReply]
    consume: Callable[[ApprovalRequest], bool]


def _no(_: ApprovalRequest) -> ApprovalReply:
    return ApprovalReply(status="denied", reason="nobody was there to approve it")


NO_APPROVER = Approver(ask=_no, consume=lambda _: False)
"""There is nobody to ask: what the policy denies is not done."""
