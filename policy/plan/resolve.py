"""What a step would do if it ran now: its arguments filled, each with its label and its way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from contracts.entity import Entity, Label, join_labels
from contracts.json import Json, canonical_json
from contracts.tool import Denied
from policy.authority import Authority
from policy.plan.references import ReferenceMissing, filled_refs, refs_in, value_at
from policy.plan.registry import Operation, Registry
from policy.types import Plan, PlanStep, Ref


@dataclass(frozen=True, kw_only=True)
class PolicyContext:
    """What the policy may know at this moment.

    `values` are what references lead to: `step0`, `input.intent`, `place.workspace`. Only an
    `Entity` has a label; anything else that was handed in leads nowhere. `plan` is the id of
    the plan that was agreed on.
    """

    registry: Registry
    authority: Authority
    plan: str
    values: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    entities: Mapping[str, Entity] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class StepCall:
    """One step about to run.

    `item` is what `foreach` is at. `earlier` are the attempts that failed before. `proposed`
    are the arguments as a model wrote them, for a step with `compose`.
    """

    plan: Plan
    index: int
    item: Entity | None = None
    failed_attempts: Sequence[Entity] = ()
    proposed: Mapping[str, Json] | None = None

    @property
    def step(self) -> PlanStep:
        """The step as the plan has it."""
        return self.plan.steps[self.index]


@dataclass(frozen=True, kw_only=True)
class ResolvedCall:
    """What a step's arguments are made of; their values are filled when asked for.

    `control` are the entities that decide whether and how often it runs. `place` is what the
    operation's place holds, if it has one.
    """

    step: PlanStep
    operation: Operation
    argument_entities: Mapping[str, tuple[Entity, ...]]
    control_entities: Mapping[str, tuple[Entity, ...]]
    place: Entity | None
    values: Mapping[str, object]
    proposed: Mapping[str, Json] | None = None

    @property
    def used(self) -> tuple[Entity, ...]:
        """Everything that goes into it, once each."""
        held = chain(
            *self.control_entities.values(), *self.argument_entities.values(), (self.place,)
        )
        return tuple({entity.id: entity for entity in held if entity is not None}.values())

    @property
    def names(self) -> dict[str, Json]:
        """The ids of all that goes into each argument, by its name; also of guards and place."""
        named = {**self.control_entities, **self.argument_entities}
        if self.place is not None:
            named[f"place.{self.operation.place}"] = (self.place,)
        return {name: [entity.id for entity in held] for name, held in named.items()}

    def label(self, name: str) -> Label:
        """The label of one argument."""
        return join_labels(entity.label for entity in self.argument_entities.get(name, ()))

    def argument(self, name: str) -> Json:
        """The value of one argument, None when it is not given.

        Raises:
            Missing: a reference leads past the end of the content.
        """
        if self.proposed is not None:
            return self.proposed.get(name)
        return self.planned(name)

    def planned(self, name: str) -> Json:
        """The value that the plan alone gives, whatever a model proposed.

        Raises:
            Missing: a reference leads past the end of the content.
        """
        return filled_refs(self.step.args.get(name), lambda ref: _value(ref, self.values))

    @property
    def arguments(self) -> dict[str, Json]:
        """All of them.

        Raises:
            Missing: a reference leads past the end of the content.
        """
        given = self.step.args if self.proposed is None else self.proposed
        return {name: self.argument(name) for name in given}


def resolve(call: StepCall, world: PolicyContext) -> ResolvedCall | Denied:
    """What the step is made of; denied when something has no rule or no label."""
    step = call.step
    operation = world.registry.get(step.op)
    if operation is None:
        return Denied(reason=f"no rule for {step.op!r}", rule="C1", argument="/op")
    values = world.values if call.item is None else {**world.values, "item": call.item}
    try:
        args = sorted(step.args.items())  # so that it is the same from its canonical JSON
        parts = {name: _entities(value, values, f"/{name}") for name, value in args}
        control: dict[str, tuple[Entity, ...]] = {
            name: (_entity(ref, values, f"/{name}"),)
            for name, ref in (("when", step.when), ("foreach", step.foreach))
            if ref is not None
        }
        inherited = tuple(_entity(ref, values, "/deps") for ref in guards_before(call))
        place = _place(operation, values)
    except _Unlabelled as error:
        where, what = error.args
        return Denied(reason=f"{what} is no labelled entity", rule="C2", argument=where)
    if call.failed_attempts:
        control["retry"] = tuple(call.failed_attempts)
    if inherited:
        control["deps"] = inherited
    found = ResolvedCall(
        step=step,
        operation=operation,
        argument_entities=parts,
        control_entities=control,
        place=place,
        values=values,
    )
    return found if call.proposed is None else _proposed(call.proposed, found)


def guards_before(call: StepCall) -> Iterator[Ref]:
    """What decided whether the steps ran that this one waits for: it would not run without them."""
    seen: set[int] = set()
    ahead = list(call.step.deps)
    while ahead:
        index = ahead.pop()
        if index not in seen:
            seen.add(index)
            before = call.plan.steps[index]
            ahead.extend(before.deps)
            if before.when is not None:
                yield before.when


class _Unlabelled(Exception):
    """A reference leads to nothing, or to something without a label."""


def _entities(value: Json, values: Mapping[str, object], place: str) -> tuple[Entity, ...]:
    return tuple(_entity(found.ref, values, found.pointer) for found in refs_in(value, place))


def _entity(ref: Ref, values: Mapping[str, object], place: str) -> Entity:
    found = values.get(ref.source)
    if isinstance(found, Entity):
        return found
    raise _Unlabelled(place, str(ref))


def _place(operation: Operation, values: Mapping[str, object]) -> Entity | None:
    if operation.place is None:
        return None
    return _entity(Ref(f"place.{operation.place}"), values, "/op")


def _value(ref: Ref, values: Mapping[str, object]) -> Json:
    return value_at(_entity(ref, values, "").content, ref.path)


def _proposed(proposed: Mapping[str, Json], engine: ResolvedCall) -> ResolvedCall:
    """The same with a model's arguments: what it changed is made of all that it saw."""
    seen = engine.used
    parts = {
        name: seen
        if differs_from_plan(value, engine, name)
        else engine.argument_entities.get(name, ())
        for name, value in proposed.items()
    }
    return replace(engine, proposed=proposed, argument_entities=parts)


def differs_from_plan(value: Json, engine: ResolvedCall, name: str) -> bool:
    """True when a model's argument is not the one that the plan gives."""
    try:
        return canonical_json(value) != canonical_json(engine.planned(name))
    except (ReferenceMissing, ValueError):
        return True
