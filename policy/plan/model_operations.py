"""Operations by an isolated model: it sees data, has no effect by itself, and decides nothing."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from contracts.chat import ChatRequest, Complete, Message
from contracts.json import Json, parse_json
from contracts.tool import Tool
from policy.errors import OperationFailed
from policy.plan.authorize import Compose
from policy.plan.registry import Operation, operation, plain_json
from policy.plan.workspace_operations import to_text
from policy.templates import render_prompt
from policy.types import PlanStep

_MAX_CHARS = 200_000
"""Characters of data in one prompt."""

_MAX_TOKENS = 4_000


def model_operations(complete: Complete, model: str) -> tuple[Operation, ...]:
    """Return the operations with this model; a result has the taint of all data in the prompt."""

    def ask(
        template: str, text: object, wanted: object, schema: Mapping[str, object] | None = None
    ) -> str:
        prompt = render_prompt(template, text=to_text(text)[:_MAX_CHARS], wanted=wanted)
        request = ChatRequest(
            model=model,
            messages=[Message(role="user", content=prompt)],
            max_tokens=_MAX_TOKENS,
            response_schema=schema,
        )
        reply = complete(request).message
        if reply.tool_calls or not reply.content.strip():
            raise OperationFailed(f"{model} replied without text")
        return reply.content

    @operation(effect="read", requires=["ASK_MODEL"])
    def summarise(
        text: Annotated[object, "content"], question: Annotated[str, "query"] = ""
    ) -> Json:
        """Say a text shorter, or answer a question from it."""
        return ask("summarise.md.j2", text, question)

    @operation(effect="read", requires=["ASK_MODEL"])
    def extract(text: Annotated[object, "content"], fields: Annotated[list[str], "query"]) -> Json:
        """Take these fields out of a text; gives an object of texts, empty where nothing is."""
        reply = ask("extract.md.j2", text, fields, _fields_schema(fields))
        found = _parsed_object(reply, f"{model} replied with")
        return {name: to_text(found.get(name, "")) for name in fields}

    return (summarise, extract)


def composer(complete: Complete, model: str) -> Compose:
    """Return a function that lets the model write a step's content.

    The model gets the step's operation as its only tool; calling it has no effect.
    """

    def compose(
        step: PlanStep, operation: Operation, arguments: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        given = json.dumps(plain_json(arguments), ensure_ascii=False, indent=1)[:_MAX_CHARS]
        prompt = render_prompt("compose.md.j2", op=step.op, wanted=step.compose, arguments=given)
        tool = Tool(
            name=operation.name,
            description=operation.description,
            parameters=operation.parameters,
        )
        request = ChatRequest(
            model=model,
            messages=[Message(role="user", content=prompt)],
            tools=[tool],
            max_tokens=_MAX_TOKENS,
        )
        calls = complete(request).message.tool_calls
        if len(calls) != 1 or calls[0].name != operation.name:
            names = ", ".join(call.name for call in calls) or "nothing"
            raise OperationFailed(
                f"{model} should have called {operation.name} once, but called {names}"
            )
        return _parsed_object(calls[0].arguments, f"{model} called {operation.name} with")

    return compose


def _parsed_object(text: str, subject: str) -> Mapping[str, Json]:
    try:
        found = parse_json(text)
    except ValueError as error:
        raise OperationFailed(f"{subject} invalid JSON: {error}") from error
    if not isinstance(found, dict):
        raise OperationFailed(f"{subject} something that is not a JSON object")
    return found


def _fields_schema(fields: Sequence[str]) -> Mapping[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(fields),
        "additionalProperties": False,
    }
