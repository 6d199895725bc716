"""Does what was decided, and labels what comes of it."""

from collections.abc import Sequence

from contracts.entity import EMPTY_LABEL, Entity, Label, derive
from contracts.json import Json
from contracts.tool import Allowed, Decision, Denied
from policy.plan.references import ReferenceMissing
from policy.plan.resolve import ResolvedCall
from policy.types import PlanStep

_SHORT = 60


def run_operation(resolved: ResolvedCall, index: int) -> Entity:
    """Run the operation and give its result: it inherits the tags of all that was used.

    What a person says when asked is their own: of what they were shown it has what may not be
    told to all, and it is made of nothing.

    Raises:
        Missing: an argument cannot be filled.
        OperationInvalid: the arguments are not those that the operation takes.
        HarnessError: the operation could not do it.
    """
    operation, arguments = resolved.operation, resolved.arguments
    content = operation.call(arguments)
    also = operation.label_of(arguments)
    made = derive(
        content, origin=step_origin(resolved.step, index), sources=resolved.used, extra=also
    )
    return _vouched(made) if operation.vouched else made


def skipped_result(resolved: ResolvedCall, index: int) -> Entity:
    """What stands in for the result of a call that is not made."""
    try:
        also = resolved.operation.label_of(resolved.arguments)
    except ReferenceMissing:
        also = EMPTY_LABEL
    name = f"{step_origin(resolved.step, index)}, skipped"
    return derive(None, origin=name, sources=resolved.used, extra=also)


def check_result(entity: Entity, step: PlanStep) -> Decision:
    """Whether what came in carries no tag but those that the step declared (C2)."""
    extra = entity.label.caps - step.data_caps
    if not extra:
        return Allowed()
    return Denied(
        reason=f"what came in carries {', '.join(sorted(extra))}, which the step does not declare",
        rule="C2",
        argument="/result",
        tags=extra,
        provenance=(entity.origin,),
    )


def foreach_result(made: Sequence[Entity], *, of: Sequence[Entity], origin: str) -> Entity:
    """One list of the results of a `foreach` over what `of` holds."""
    contents: list[Json] = [entity.content for entity in made]
    return derive(contents, origin=origin, sources=[*of, *made])


def step_origin(step: PlanStep, index: int) -> str:
    """How people are told where something is from: the step, and what the plan says of it."""
    said = [value for value in step.args.values() if isinstance(value, str)]
    detail = f" {said[0]}" if said and len(said[0]) <= _SHORT else ""
    return f"step{index} {step.op}{detail}"


def _vouched(entity: Entity) -> Entity:
    label = Label(caps=entity.label.caps)
    return Entity(content=entity.content, label=label, origin=entity.origin)
