"""Model calls of plans: a planner, operations by an isolated model, and content of a step.

The planner sees the prompt, the operations and the names in the configuration, but no data. Its
plan is checked like hostile input. The isolated model sees data, has no effect by itself, and
decides nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated

from jinja2 import Environment, StrictUndefined

from contracts.chat import ChatRequest, Complete, Message
from contracts.errors import PlanInvalid
from contracts.json import Json, as_mapping, parse_json
from contracts.tool import Denied, Tool
from policy.authority import Authority
from policy.errors import OperationFailed
from policy.plan.authorize import Compose
from policy.plan.operations import to_text
from policy.plan.plan_json import check_plan, parse_plan, plan_schema
from policy.plan.registry import Operation, Registry, operation
from policy.types import Plan, PlanStep, UserPrompt

MAX_REPAIRS = 2
_PLAN_TOKENS, _CONTENT_TOKENS = 8_000, 4_000
_MAX_CHARS = 200_000
"""Characters of data in one prompt."""


@dataclass(frozen=True, kw_only=True)
class PlannerInput:
    """Everything that a planner may know besides the prompt.

    `inputs` maps the names that a plan may refer to to descriptions. `tagged` maps patterns of
    files to their tags.
    """

    registry: Registry
    authority: Authority
    inputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tagged: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def parse(self, text: str, prompt: UserPrompt) -> Plan:
        """Parse and check a plan.

        Raises:
            PlanInvalid: it is not a plan, or may not be started.
        """
        plan = parse_plan(text, prompt=prompt.id)
        decision = check_plan(plan, self.registry, self.authority, frozenset(self.inputs))
        if isinstance(decision, Denied):
            raise PlanInvalid(decision.reason)
        return plan


def make_plan(
    prompt: UserPrompt, planner_input: PlannerInput, *, complete: Complete, model: str
) -> Plan:
    """Let the model write a plan; it may correct an invalid plan twice.

    Raises:
        PlanInvalid: the model wrote no valid plan in three attempts.
        ModelUnavailable: the model does not answer.
    """
    messages = [Message(role="user", content=_planner_prompt(prompt, planner_input))]
    for attempts_left in reversed(range(MAX_REPAIRS + 1)):
        request = ChatRequest(
            model=model,
            messages=tuple(messages),
            max_tokens=_PLAN_TOKENS,
            # Some models ignore the schema, so every reply is parsed and checked again.
            response_schema=plan_schema(),
        )
        reply = complete(request).message.content
        try:
            return planner_input.parse(reply, prompt)
        except PlanInvalid as error:
            if not attempts_left:
                raise PlanInvalid(
                    f"{model} wrote no valid plan in {MAX_REPAIRS + 1} attempts; the last "
                    f"error: {error}"
                ) from error
            messages += [
                Message(role="assistant", content=reply),
                Message(role="user", content=f"This plan is not valid: {error}. Correct it."),
            ]
    raise AssertionError("a planner is asked at least once")


def model_operations(complete: Complete, model: str) -> tuple[Operation, ...]:
    """Return the operations with this model; a result has the taint of all data in the prompt."""

    def ask(
        template: str, text: object, wanted: object, schema: Mapping[str, object] | None = None
    ) -> str:
        prompt = _render(template, text=to_text(text)[:_MAX_CHARS], wanted=wanted)
        request = ChatRequest(
            model=model,
            messages=[Message(role="user", content=prompt)],
            max_tokens=_CONTENT_TOKENS,
            response_schema=schema,
        )
        reply = complete(request).message
        # A tool call would be an action decided by the data; it is refused, not ignored.
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
        step: PlanStep,
        operation: Operation,
        arguments: Mapping[str, Json],
        material: Sequence[Json],
    ) -> Mapping[str, Json]:
        open_content = sorted(operation.open_content(step))
        prompt = _render(
            "compose.md.j2",
            op=step.op,
            wanted=step.compose,
            names=open_content,
            arguments=to_text(arguments)[:_MAX_CHARS],
            material=to_text(material)[:_MAX_CHARS],
        )
        tool = Tool(
            name=operation.name,
            description=operation.description,
            parameters=operation.parameters_only(open_content),
        )
        request = ChatRequest(
            model=model,
            messages=[Message(role="user", content=prompt)],
            tools=[tool],
            max_tokens=_CONTENT_TOKENS,
        )
        calls = complete(request).message.tool_calls
        if len(calls) != 1 or calls[0].name != operation.name:
            names = ", ".join(call.name for call in calls) or "nothing"
            raise OperationFailed(
                f"{model} should have called {operation.name} once, but called {names}"
            )
        return _parsed_object(calls[0].arguments, f"{model} called {operation.name} with")

    return compose


def _render(template: str, **values: object) -> str:
    """Return the template with these values, which are never read as templates themselves."""
    text = files("policy").joinpath("prompts", template).read_text()
    environment = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True)  # noqa: S701 - a prompt, not HTML
    # The values are arguments, never part of the template: data cannot hold Jinja code.
    return environment.from_string(text).render(**values)


def _planner_prompt(prompt: UserPrompt, planner_input: PlannerInput) -> str:
    authority = planner_input.authority
    return _render(
        "plan.md.j2",
        prompt=prompt.text,
        operations=[_described(one) for one in planner_input.registry],
        people={name: sorted(addresses) for name, addresses in authority.principals.items()},
        tags=sorted(authority.tags),
        tagged=[(pattern, sorted(caps)) for pattern, caps in planner_input.tagged.items()],
        inputs=planner_input.inputs,
    )


def _described(operation: Operation) -> dict[str, object]:
    schemas = as_mapping(operation.parameters.get("properties"))
    return {
        "name": operation.name,
        "about": " ".join(operation.description.split()),
        "tool_caps": json.dumps(sorted(operation.requires)),
        "parameters": [
            {
                "name": name,
                "role": role,
                "type": _type_name(schemas.get(name)),
                "optional": name not in operation.required,
            }
            for name, role in operation.roles.items()
        ],
    }


def _type_name(schema: object) -> str:
    """Return a JSON Schema as a short phrase."""
    if not isinstance(schema, Mapping):
        return "any"
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, Iterable):
        return " or ".join(_type_name(one) for one in alternatives)
    if schema.get("type") == "array":
        return f"list of {_type_name(schema.get('items'))}"
    return str(schema.get("type", "any"))


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
