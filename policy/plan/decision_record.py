"""The question that a decision about a step answered: all it was made from, to decide again."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pydantic import BaseModel, Field, JsonValue, ValidationError

from contracts.entity import Entity, Label
from contracts.errors import PlanInvalid
from contracts.json import Json, canonical_json
from contracts.tool import Decision
from policy.authority import Authority
from policy.plan.plan_json import MAX_STEPS, parse_step
from policy.plan.references import refs_in
from policy.plan.registry import Operation, Registry, plain_json
from policy.plan.resolve import PolicyContext, StepCall
from policy.plan.step_check import RULES_VERSION, check_step
from policy.types import Plan, PlanStep

PLAN_POLICY_VERSION = f"plan/{RULES_VERSION}"
"""How decisions of these rules are named in the event log."""


def decision_inputs(call: StepCall, world: PolicyContext) -> dict[str, Json]:
    """All that `check_step` decides by. Content is left out where no rule looks at it."""
    operation = world.registry.get(call.step.op)
    values = {
        name: _described(held, with_content=looked_at)
        for name, looked_at in _names(call, operation)
        if isinstance(held := world.values.get(name), Entity)
    }
    return {
        "steps": {str(i): call.plan.steps[i].as_json() for i in sorted(_before(call))},
        "index": call.index,
        "agreed": call.plan.id == world.plan,
        "operation": None if operation is None else _operation(operation),
        "authority": world.authority.as_json(),
        "values": values,
        "item": None if call.item is None else _described(call.item, with_content=True),
        "earlier": [_described(entity, with_content=False) for entity in call.failed_attempts],
        "proposed": call.proposed,
    }


def redecide(question: Mapping[str, Json]) -> Decision:
    """The decision that these rules make of a question.

    Raises:
        ValueError: it is none of theirs.
    """
    try:
        asked = _Question.model_validate(plain_json(question))
        steps = {
            int(index): parse_step(canonical_json(step)) for index, step in asked.steps.items()
        }
        _check_order(steps, asked.index)
        plan = Plan(steps=tuple(steps.get(i, _GAP) for i in range(asked.index + 1)), prompt="")
    except (ValidationError, PlanInvalid) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    call = StepCall(
        plan=plan,
        index=asked.index,
        item=asked.item.entity() if asked.item else None,
        failed_attempts=tuple(one.entity() for one in asked.earlier),
        proposed=asked.proposed,
    )
    world = PolicyContext(
        registry=Registry([asked.operation.operation()] if asked.operation else []),
        authority=asked.authority.authority(),
        plan=plan.id if asked.agreed else "",
        values={name: held.entity() for name, held in asked.values.items()},
    )
    return check_step(call, world)


def _check_order(steps: Mapping[int, PlanStep], last: int) -> None:
    for index, step in steps.items():
        if not 0 <= index <= last or any(not 0 <= dep < index for dep in step.deps):
            raise ValueError(f"step {index} is no step before step {last}, or waits for none such")


_GAP = PlanStep(op="a_step_that_this_one_does_not_wait_for")


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
    effect: str
    requires: frozenset[str]
    roles: dict[str, str]
    place: str | None

    def operation(self) -> Operation:
        return Operation(
            name=self.name,
            description="",
            effect=self.effect,  # type: ignore[arg-type]  # one of the words it was written with
            requires=self.requires,
            roles=MappingProxyType(self.roles),  # type: ignore[arg-type]  # as above
            arguments=BaseModel,
            run=_not_again,
            place=self.place,
        )


class _Authority(BaseModel, frozen=True, extra="forbid"):
    grants: frozenset[str]
    principals: dict[str, frozenset[str]]
    tags: frozenset[str]

    def authority(self) -> Authority:
        return Authority(grants=self.grants, principals=self.principals, tags=self.tags)


class _Question(BaseModel, frozen=True, extra="forbid"):
    steps: dict[str, dict[str, JsonValue]]
    index: int = Field(ge=0, lt=MAX_STEPS)
    agreed: bool
    operation: _Operation | None
    authority: _Authority
    values: dict[str, _Value]
    item: _Value | None
    earlier: list[_Value]
    proposed: dict[str, JsonValue] | None


def _not_again(**_: object) -> Json:
    raise AssertionError("what is decided again is not done again")


def _before(call: StepCall) -> set[int]:
    """The step, and all that it waits for."""
    found: set[int] = set()
    ahead = [call.index]
    while ahead:
        index = ahead.pop()
        if index not in found:
            found.add(index)
            ahead.extend(call.plan.steps[index].deps)
    return found


def _names(call: StepCall, operation: Operation | None) -> Iterator[tuple[str, bool]]:
    """What the step refers to, and whether a rule looks at its content: the last word counts."""
    for index in _before(call):
        when = call.plan.steps[index].when
        if when is not None:
            yield when.source, False
    if call.step.foreach is not None:
        yield call.step.foreach.source, False
    if operation is not None and operation.place is not None:
        yield f"place.{operation.place}", False
    roles = operation.roles if operation else {}
    looked: dict[str, bool] = {}
    for name, value in call.step.args.items():
        role = roles.get(name)
        steering = role == "recipient" or (call.proposed is not None and role != "content")
        for found in refs_in(value):
            looked[found.ref.source] = looked.get(found.ref.source, False) or steering
    yield from looked.items()


def _operation(operation: Operation) -> dict[str, Json]:
    return {
        "name": operation.name,
        "effect": operation.effect,
        "requires": sorted(operation.requires),
        "roles": dict(operation.roles),
        "place": operation.place,
    }


def _described(entity: Entity, *, with_content: bool) -> dict[str, Json]:
    return {
        "content": entity.content if with_content else None,
        "caps": sorted(entity.label.caps),
        "taint": sorted(entity.label.taint),
        "origin": entity.origin,
        "id": entity.id,
    }
