"""Lets the executor's model write the content of one step, as a call of its operation."""

import json
from collections.abc import Mapping

from contracts.chat import ChatRequest, Complete, Message
from contracts.json import Json, parse_json
from contracts.tool import Tool, ToolCall
from policy.errors import OperationFailed
from policy.plan.authorize import Compose
from policy.plan.registry import Operation, plain_json
from policy.templates import render_prompt
from policy.types import PlanStep

_MAX_TOKENS = 4_000
_CHARS = 200_000


def composer(complete: Complete, model: str) -> Compose:
    """Asks this model; its one tool is the step's operation, and calling it does nothing."""

    def propose(
        step: PlanStep, operation: Operation, arguments: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        tool = Tool(
            name=operation.name,
            description=operation.description,
            parameters=operation.parameters,
        )
        request = ChatRequest(
            model=model,
            messages=[Message(role="user", content=_asked(step, arguments))],
            tools=[tool],
            max_tokens=_MAX_TOKENS,
        )
        calls = complete(request).message.tool_calls
        if len(calls) != 1 or calls[0].name != operation.name:
            names = ", ".join(call.name for call in calls) or "nothing"
            raise OperationFailed(f"{model} was to call {operation.name} once, it called {names}")
        return _arguments(calls[0], model)

    return propose


def _asked(step: PlanStep, arguments: Mapping[str, Json]) -> str:
    given = json.dumps(plain_json(arguments), ensure_ascii=False, indent=1)[:_CHARS]
    return render_prompt("compose.md.j2", op=step.op, wanted=step.compose, arguments=given)


def _arguments(call: ToolCall, model: str) -> Mapping[str, Json]:
    try:
        found = parse_json(call.arguments)
    except ValueError as error:
        raise OperationFailed(f"{model} called {call.name} with no JSON: {error}") from error
    if not isinstance(found, dict):
        raise OperationFailed(f"{model} called {call.name} without arguments")
    return found
