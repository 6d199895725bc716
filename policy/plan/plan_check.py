"""What can be said of a plan before anything runs."""

from collections.abc import Iterator

from contracts.json import canonical_json
from contracts.tool import Allowed, Decision, Denied
from policy.authority import Authority
from policy.plan.references import refs_in
from policy.plan.registry import Registry
from policy.types import Plan, PlanStep, Ref

MAX_STEP_CHARS = 200_000


def check_plan(
    plan: Plan, registry: Registry, authority: Authority, inputs: frozenset[str] = frozenset()
) -> Decision:
    """Decide whether the plan may be tried at all; `inputs` are the names it may refer to.

    Every operation and capability is known, every argument one of the operation's, every
    reference leads to an input, to the item of a `foreach` or to an earlier step that the
    step depends on, and no step is huge.
    """
    return next(_denials(plan, registry, authority, inputs), Allowed())


def _denials(
    plan: Plan, registry: Registry, authority: Authority, inputs: frozenset[str]
) -> Iterator[Denied]:
    for index, step in enumerate(plan.steps):
        for argument, reason in (
            *_operation(step, registry),
            *_caps(step, registry, authority),
            *_deps(step, index),
            *_refs(step, inputs),
        ):
            yield Denied(reason=f"step {index}: {reason}", rule="plan", argument=argument)


Problems = Iterator[tuple[str, str]]


def _operation(step: PlanStep, registry: Registry) -> Problems:
    operation = registry.get(step.op)
    if operation is None:
        known = ", ".join(sorted(one.name for one in registry))
        yield "/op", f"no operation {step.op!r}; known: {known}"
        return
    for name in step.args.keys() - operation.roles.keys():
        takes = ", ".join(operation.roles)
        yield f"/{name}", f"{step.op} takes no {name!r}; it takes: {takes}"
    composed = {n for n, role in operation.roles.items() if role == "content" and step.compose}
    for name in sorted(operation.required - step.args.keys() - composed):
        yield f"/{name}", f"{step.op} needs {name!r}"
    if step.tool_caps != operation.requires:
        needs = ", ".join(sorted(operation.requires))
        yield "/tool_caps", f"{step.op} requires exactly {needs}"
    if len(canonical_json(step.args)) > MAX_STEP_CHARS:
        yield "/args", f"the arguments have more than {MAX_STEP_CHARS} characters"


def _caps(step: PlanStep, registry: Registry, authority: Authority) -> Problems:
    for cap in sorted(step.tool_caps - registry.tool_caps):
        yield "/tool_caps", f"no tool capability {cap!r}"
    for cap in sorted(step.data_caps):
        if not authority.is_known(cap):
            yield "/data_caps", f"no data capability {cap!r}: no principal or tag of that name"


def _deps(step: PlanStep, index: int) -> Problems:
    for dep in step.deps:
        if not 0 <= dep < index:
            yield "/deps", f"depends on step {dep}, which does not come before it"


def _refs(step: PlanStep, inputs: frozenset[str]) -> Problems:
    for found in refs_in(step.args):
        yield from _ref(found.ref, found.pointer, step, inputs)
    for name, ref in (("when", step.when), ("foreach", step.foreach)):
        if ref is not None and ref.source == "item":
            yield f"/{name}", "an item is only there for the arguments"
        elif ref is not None:
            yield from _ref(ref, f"/{name}", step, inputs)


def _ref(ref: Ref, place: str, step: PlanStep, inputs: frozenset[str]) -> Problems:
    if ref.step is not None:
        if ref.step not in step.deps:
            yield place, f"{ref} is not one of its dependencies {list(step.deps)}"
    elif ref.source == "item":
        if step.foreach is None:
            yield place, "there is no foreach, so no item"
    elif ref.source.removeprefix("input.") not in inputs:
        yield place, f"there is no {ref.source!r}; inputs: {', '.join(sorted(inputs)) or 'none'}"
