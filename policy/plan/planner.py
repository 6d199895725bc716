"""A prompt becomes a plan: a model writes it, and it is checked as if an enemy had.

The planner sees the prompt, the operations and the names in the configuration: never data.
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
    """What a planner may know. `inputs` are names it may refer to, and what each is.

    `tagged` says which files carry which tags, by their patterns.
    """

    registry: Registry
    authority: Authority
    inputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tagged: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def parse(self, text: str, prompt: UserPrompt) -> Plan:
        """The plan that this text holds.

        Raises:
            PlanInvalid: it is no plan, or one that cannot be tried.
        """
        plan = parse_plan(text, prompt=prompt.id)
        decision = check_plan(plan, self.registry, self.authority, frozenset(self.inputs))
        if isinstance(decision, Denied):
            raise PlanInvalid(decision.reason)
        return plan


def make_plan(prompt: UserPrompt, brief: PlannerInput, *, complete: Complete, model: str) -> Plan:
    """Let the model write a plan for the prompt; what is wrong it may mend twice.

    Raises:
        PlanInvalid: what it wrote was no plan three times over.
        ModelUnavailable: the model does not answer.
    """
    messages = [Message(role="user", content=_asked(prompt, brief))]
    for left in reversed(range(MAX_REPAIRS + 1)):
        request = ChatRequest(
            model=model,
            messages=tuple(messages),
            max_tokens=_MAX_TOKENS,
            response_schema=plan_schema(),
        )
        said = complete(request).message.content
        try:
            return brief.parse(said, prompt)
        except PlanInvalid as error:
            if not left:
                raise PlanInvalid(
                    f"{model} wrote no plan that can be used, {MAX_REPAIRS + 1} times over; "
                    f"the last time: {error}"
                ) from error
            messages += [
                Message(role="assistant", content=said),
                Message(role="user", content=f"That is not a plan I can use: {error}. Mend it."),
            ]
    raise AssertionError("a planner is asked at least once")


def _asked(asked: UserPrompt, brief: PlannerInput) -> str:
    return render_prompt(
        "plan.md.j2",
        prompt=asked.text,
        operations=[_described(one) for one in brief.registry],
        people={name: sorted(held) for name, held in brief.authority.principals.items()},
        tags=sorted(brief.authority.tags),
        tagged=[(pattern, sorted(caps)) for pattern, caps in brief.tagged.items()],
        inputs=brief.inputs,
    )


def _described(operation: Operation) -> dict[str, object]:
    named = as_mapping(operation.parameters.get("properties"))
    return {
        "name": operation.name,
        "about": " ".join(operation.description.split()),
        "tool_caps": json.dumps(sorted(operation.requires)),
        "parameters": [
            {
                "name": name,
                "role": role,
                "type": _type(named.get(name)),
                "optional": name not in operation.required,
            }
            for name, role in operation.roles.items()
        ],
    }


def _type(schema: object) -> str:
    """A JSON Schema in few words."""
    if not isinstance(schema, Mapping):
        return "any"
    some = schema.get("anyOf")
    if isinstance(some, Iterable):
        return " or ".join(_type(one) for one in some)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items'))}"
    return str(schema.get("type", "any"))
