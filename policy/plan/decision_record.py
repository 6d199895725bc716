"""Records the inputs of a decision about a step, and makes the decision again from them."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from contracts.entity import Entity, Label
from contracts.errors import PlanInvalid
from contracts.json import Json, canonical_json
from contracts.tool import Decision
from policy.authority import Authority
from policy.plan.plan_json import MAX_STEPS, parse_step
from policy.plan.references import refs_in
from policy.plan.registry import Operation, Registry, plain_json
from policy.plan.resolve import PolicyContext, StepCall, find_value, steps_before
from policy.plan.step_check import RULES_VERSION, check_step
from policy.types import Effect, Plan, PlanStep, Ref, Role

PLAN_POLICY_VERSION = f"plan/{RULES_VERSION}"
"""Version of these rules in the event log."""


def decision_inputs(call: StepCall, context: PolicyContext) -> dict[str, Json]:
    """Return all inputs of `check_step`, without the content that no rule looks at."""
    operation = context.registry.get(call.step.op)
    values = {
        name: _value_json(value, with_content=with_content)
        for name, with_content in _used_values(call, operation, context)
        if isinstance(value := context.values.get(name), Entity)
    }
    return {
        "steps": {str(i): call.plan.steps[i].as_json() for i in sorted(_involved_steps(call))},
        "index": call.index,
        "agreed": call.plan.id == context.plan,
        "operation": {"name": operation.name, **operation.as_json()} if operation else None,
        "authority": context.authority.as_json(),
        "values": values,
        "item": None if call.item is None else _value_json(call.item, with_content=True),
        "earlier": [_value_json(entity, with_content=False) for entity in call.failed_attempts],
        "proposed": call.proposed,
    }


def redecide(inputs: Mapping[str, Json], rules: Literal["1", "2"] = "2") -> Decision:
    """Return the decision that this version of the rules makes of recorded inputs.

    Raises:
        ValueError: they are not inputs of these rules.
    """
    try:
        recorded = _Inputs.model_validate(plain_json(inputs))
        steps = {int(i): parse_step(canonical_json(step)) for i, step in recorded.steps.items()}
    except (ValidationError, PlanInvalid) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    for index, step in steps.items():
        if not 0 <= index <= recorded.index or any(not 0 <= dep < index for dep in step.deps):
            raise ValueError(f"step {index} does not belong before step {recorded.index}")
    plan = Plan(
        steps=tuple(steps.get(i, _UNRECORDED_STEP) for i in range(recorded.index + 1)), prompt=""
    )
    call = StepCall(
        plan=plan,
        index=recorded.index,
        item=recorded.item.entity() if recorded.item else None,
        failed_attempts=tuple(value.entity() for value in recorded.earlier),
        proposed=recorded.proposed,
    )
    context = PolicyContext(
        registry=Registry([recorded.operation.operation()] if recorded.operation else []),
        authority=Authority(**dict(recorded.authority)),
        plan=plan.id if recorded.agreed else "",
        values={name: value.entity() for name, value in recorded.values.items()},
        rules=rules,
    )
    return check_step(call, context)


_UNRECORDED_STEP = PlanStep(op="a_step_without_influence_on_the_decision")


class _Value(BaseModel, frozen=True, extra="forbid"):
    content: JsonValue = None
    caps: frozenset[str]
    taint: frozenset[str]
    origin: str
    id: str

    def entity(self) -> Entity:
        label = Label(caps=self.caps, taint=self.taint)
        return Entity(content=self.content, label=label, origin=self.origin, sources=(self.id,))


class _Operation(BaseModel, frozen=True, extra="forbid"):
    name: str
    effect: Effect
    requires: frozenset[str]
    roles: dict[str, Role]
    place: str | None

    def operation(self) -> Operation:
        return Operation(**dict(self), description="", arguments=BaseModel, run=_never_run)


class _Authority(BaseModel, frozen=True, extra="forbid"):
    grants: frozenset[str]
    principals: dict[str, frozenset[str]]
    tags: frozenset[str]
    named: frozenset[str] = frozenset()


class _Inputs(BaseModel, frozen=True, extra="forbid"):
    steps: dict[str, dict[str, JsonValue]]
    index: int = Field(ge=0, lt=MAX_STEPS)
    agreed: bool
    operation: _Operation | None
    authority: _Authority
    values: dict[str, _Value]
    item: _Value | None
    earlier: list[_Value]
    proposed: dict[str, JsonValue] | None


def _never_run(**_: object) -> Json:
    raise AssertionError("a replayed decision does not run the operation")


def _involved_steps(call: StepCall) -> set[int]:
    return {call.index, *steps_before(call)}


def _used_values(
    call: StepCall, operation: Operation | None, context: PolicyContext
) -> Iterator[tuple[str, bool]]:
    """Yield the name of each value that the step uses, and whether a rule looks at its content."""

    def named(ref: Ref) -> str:
        found = find_value(ref, context.values)
        return found.name if found else ref.source

    control = [call.plan.steps[index].when for index in _involved_steps(call)]
    for ref in (*control, call.step.foreach, *call.step.compose_from):
        if ref is not None:
            yield named(ref), False
    if operation is not None and operation.place is not None:
        yield f"place.{operation.place}", False
    roles = operation.roles if operation else {}
    composed = operation.open_content(call.step) if operation else frozenset()
    in_arguments: dict[str, bool] = {}
    for name, value in call.step.args.items():
        role = roles.get(name)
        # C3 and C4 read steering values, C5 those that a model may not write.
        compared = role in ("recipient", "authority") or (
            call.proposed is not None and name not in composed
        )
        for found in refs_in(value):
            source = named(found.ref)
            in_arguments[source] = in_arguments.get(source, False) or compared
    yield from in_arguments.items()  # last, because a dict keeps the last value of a name


def _value_json(entity: Entity, *, with_content: bool) -> dict[str, Json]:
    return {
        "content": entity.content if with_content else None,
        "caps": sorted(entity.label.caps),
        "taint": sorted(entity.label.taint),
        "origin": entity.origin,
        "id": entity.id,
    }
