"""Calls of a scripted agent that the guard denies or allows, and its approvals."""

import json

from blueprints.dsl import agentic, blueprint
from blueprints.types import Blueprint
from contracts.run import RunContext
from policy.plan.approvals import Approvals
from policy.types import Approval, ApprovalStatus

RUN = "abcd1234"


def tool(name: str, **arguments: str) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": "", "tool_calls": [{"id": f"call_{name}", "function": function}]}


WORK = tool("write_file", path="answer.txt", content="42")


DONE = {"content": "Done."}


def asked_prompt(ctx: RunContext) -> str:
    return ctx.intent or "Do what is to be done."


def agent_blueprint() -> Blueprint:
    return blueprint("ask-agent", "Ask an agent", [agentic("work", "work", prompt=asked_prompt)])


CI = ".github/workflows/ci.yml"


CHANGE_CI = tool("write_file", path=CI, content="on: push\n")


def only(approvals: Approvals, status: ApprovalStatus = "pending") -> Approval:
    """Return the one approval of the run with this status."""
    (found,) = [one for one in approvals.list(run_id=RUN) if one.status == status]
    return found
