"""Makes a plan from a prompt: a model writes it, and it is checked like hostile input.

The planner sees the prompt, the operations and the names in the configuration, but no data.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.chat import ChatRequest, Complete, Message
from contracts.errors import PlanInvalid
from contracts.json import as_mapping
from contracts.tool import Denied
from policy.authority import Authority
from policy.plan.plan_check import check_plan
from policy.plan.plan_json import parse_plan, plan_schema
from policy.plan.registry import Operation, Registry
from policy.templates import render_prompt
from policy.types import Plan, UserPrompt

MAX_REPAIRS = 2
_MAX_TOKENS = 8_000


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
            max_tokens=_MAX_TOKENS,
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


def _planner_prompt(prompt: UserPrompt, planner_input: PlannerInput) -> str:
    authority = planner_input.authority
    return render_prompt(
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
