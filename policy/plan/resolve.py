"""Resolves the references of a step to labelled entities, right before it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Literal, NamedTuple

from contracts.entity import Entity
from contracts.json import Json, canonical_json
from contracts.tool import Denied
from policy.authority import Authority
from policy.plan.references import ReferenceMissing, filled_refs, refs_in, value_at
from policy.plan.registry import Operation, Registry
from policy.types import Plan, PlanStep, Ref


@dataclass(frozen=True, kw_only=True)
class PolicyContext:
    """Everything that the policy decides by, at one moment.

    `values` are the targets of references: `step0`, `input.intent`, `place.workspace`. A value
    that is not an `Entity` has no label, so references to it are denied. An item of a result may
    have a value of its own, such as `step0/3`. `plan` is the id of the plan that the user agreed
    to. `rules` is the version of the rules; old ones only repeat decisions of the event log.
    """

    registry: Registry
    authority: Authority
    plan: str
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    entities: Mapping[str, Entity] = field(default_factory=lambda: MappingProxyType({}))
    rules: Literal["1", "2"] = "2"


@dataclass(frozen=True, kw_only=True)
class StepCall:
    """One call of a step.

    `item` is the current item of `foreach`. `failed_attempts` are the errors of earlier attempts.
    `proposed` are the arguments that a model wrote, for a step with `compose`.
    """

    plan: Plan
    index: int
    item: Entity | None = None
    failed_attempts: Sequence[Entity] = ()
    proposed: Mapping[str, Json] | None = None

    @property
    def step(self) -> PlanStep:
        """The step in the plan."""
        return self.plan.steps[self.index]


@dataclass(frozen=True, kw_only=True)
class ResolvedCall:
    """A call with the entities that it uses; argument values are computed on demand.

    `control_entities` decide whether and how often the step runs. `material` is what a model
    reads to compose content. `place` is the entity of the operation's place.
    """

    step: PlanStep
    operation: Operation
    argument_entities: Mapping[str, tuple[Entity, ...]]
    control_entities: Mapping[str, tuple[Entity, ...]]
    material: tuple[Entity, ...]
    place: Entity | None
    values: Mapping[str, object]
    proposed: Mapping[str, Json] | None = None

    @property
    def used(self) -> tuple[Entity, ...]:
        """Every entity that influences the call, once."""
        found = chain(
            *self.control_entities.values(),
            *self.argument_entities.values(),
            self.material,
            (self.place,),
        )
        return tuple({entity.id: entity for entity in found if entity is not None}.values())

    def argument(self, name: str) -> Json:
        """Return the value of an argument, None if it is not given.

        Raises:
            ReferenceMissing: a reference leads to no value.
        """
        return self.planned(name) if self.proposed is None else self.proposed.get(name)

    def planned(self, name: str) -> Json:
        """Return the value of an argument by the plan, even if a model proposed another one.

        Raises:
            ReferenceMissing: a reference leads to no value.
        """

        return filled_refs(self.step.args.get(name), self.content)

    def content(self, ref: Ref) -> Json:
        """Return the value that a reference of the step leads to.

        Raises:
            ReferenceMissing: there is none.
        """
        found = find_value(ref, self.values)
        if found is None:
            raise ReferenceMissing(str(ref))
        return value_at(found.entity.content, found.path)

    @property
    def arguments(self) -> dict[str, Json]:
        """The values of all arguments.

        Raises:
            ReferenceMissing: a reference leads to no value.
        """
        names = self.step.args if self.proposed is None else self.proposed
        return {name: self.argument(name) for name in names}


def resolve(call: StepCall, context: PolicyContext) -> ResolvedCall | Denied:
    """Return the entities of a call; denied if the operation or a label is unknown."""
    step = call.step
    operation = context.registry.get(step.op)
    if operation is None:
        return Denied(reason=f"no rule for {step.op!r}", rule="C1", argument="/op")
    values = context.values if call.item is None else {**context.values, "item": call.item}
    control: dict[str, tuple[Entity, ...]] = {}
    try:
        # Sorted, so that the result is the same for a plan that was read from canonical JSON.
        arguments = {
            name: tuple(_entity(one.ref, values, one.pointer) for one in refs_in(arg, f"/{name}"))
            for name, arg in sorted(step.args.items())
        }
        for name, ref in (("when", step.when), ("foreach", step.foreach)):
            if ref is not None:
                control[name] = (_entity(ref, values, f"/{name}"),)
        material = tuple(_entity(ref, values, "/compose_from") for ref in step.compose_from)
        # The conditions of earlier steps also decide whether this one runs.
        conditions = (call.plan.steps[index].when for index in steps_before(call))
        inherited = tuple(_entity(ref, values, "/deps") for ref in conditions if ref is not None)
        place = None
        if operation.place is not None:
            place = _entity(Ref(f"place.{operation.place}"), values, "/op")
    except _Unlabelled as error:
        pointer, reference = error.args
        reason = f"{reference} is not a labelled entity"
        return Denied(reason=reason, rule="C2", argument=pointer)
    if call.failed_attempts:
        control["retry"] = tuple(call.failed_attempts)
    if inherited:
        control["deps"] = inherited
    resolved = ResolvedCall(
        step=step,
        operation=operation,
        argument_entities=arguments,
        control_entities=control,
        material=material,
        place=place,
        values=values,
    )
    return resolved if call.proposed is None else _with_proposed(resolved, call.proposed)


def differs_from_plan(value: Json, resolved: ResolvedCall, name: str) -> bool:
    """Return True if a model's argument is not the one in the plan."""
    try:
        return canonical_json(value) != canonical_json(resolved.planned(name))
    except (ReferenceMissing, ValueError):
        return True


def _with_proposed(resolved: ResolvedCall, proposed: Mapping[str, Json]) -> ResolvedCall:
    """Return the call with a model's arguments.

    An argument that the model changed may be made of everything that the model saw.
    """
    # The model saw all of them, and may have copied from any.
    seen = resolved.used
    arguments = {
        name: seen
        if differs_from_plan(value, resolved, name)
        else resolved.argument_entities.get(name, ())
        for name, value in proposed.items()
    }
    return replace(resolved, proposed=proposed, argument_entities=arguments)


def steps_before(call: StepCall) -> tuple[int, ...]:
    """Return the indices of all steps that this one depends on, directly or not."""
    found: dict[int, None] = {}
    queue = list(call.step.deps)
    while queue:
        index = queue.pop()
        if index not in found:
            found[index] = None
            queue.extend(call.plan.steps[index].deps)
    return tuple(found)


class _Unlabelled(Exception):
    """A reference leads to no value, or to one without a label."""


class FoundValue(NamedTuple):
    """The entity that a reference leads to, its name, and the rest of the path inside it."""

    name: str
    entity: Entity
    path: tuple[str, ...]


def find_value(ref: Ref, values: Mapping[str, object]) -> FoundValue | None:
    """Return the smallest entity that holds the referenced value: an item before its list."""
    for end in range(len(ref.path), -1, -1):
        name = "/".join((ref.source, *ref.path[:end]))
        entity = values.get(name)
        if isinstance(entity, Entity):
            return FoundValue(name, entity, ref.path[end:])
    return None


def _entity(ref: Ref, values: Mapping[str, object], pointer: str) -> Entity:
    found = find_value(ref, values)
    if found is None:
        raise _Unlabelled(pointer, str(ref))
    return found.entity
