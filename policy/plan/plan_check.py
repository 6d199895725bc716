"""Checks a plan before any of its steps runs."""

from collections.abc import Iterator

from contracts.json import canonical_json
from contracts.tool import Allowed, Decision, Denied
from policy.authority import Authority
from policy.plan.references import refs_in
from policy.plan.registry import Registry
from policy.types import Plan, PlanStep, Ref

MAX_STEP_CHARS = 200_000

Problems = Iterator[tuple[str, str]]
"""Pointers into a step, each with a reason."""


def check_plan(
    plan: Plan, registry: Registry, authority: Authority, inputs: frozenset[str] = frozenset()
) -> Decision:
    """Decide whether the plan may be started; `inputs` are the names that it may refer to.

    Every operation, capability and argument must be known. Every reference must lead to an
    input, to the item of a `foreach`, or to a step among the dependencies. No step may be huge.
    """
    for index, step in enumerate(plan.steps):
        for pointer, reason in (
            *_operation_problems(step, registry),
            *_label_problems(step, authority),
            *_dependency_problems(step, index),
            *_reference_problems(step, inputs),
        ):
            return Denied(reason=f"step {index}: {reason}", rule="plan", argument=pointer)
    return Allowed()


def _operation_problems(step: PlanStep, registry: Registry) -> Problems:
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


def _label_problems(step: PlanStep, authority: Authority) -> Problems:
    for cap in sorted(step.data_caps):
        if not authority.is_known(cap):
            yield "/data_caps", f"no data capability {cap!r}: no principal or tag of that name"


def _dependency_problems(step: PlanStep, index: int) -> Problems:
    for dep in step.deps:
        if not 0 <= dep < index:
            yield "/deps", f"it depends on step {dep}, which does not come before it"


def _reference_problems(step: PlanStep, inputs: frozenset[str]) -> Problems:
    for found in refs_in(step.args):
        yield from _target_problems(found.ref, found.pointer, step, inputs)
    for name, ref in (("when", step.when), ("foreach", step.foreach)):
        if ref is not None and ref.source == "item":
            yield f"/{name}", "only the arguments may refer to an item"
        elif ref is not None:
            yield from _target_problems(ref, f"/{name}", step, inputs)


def _target_problems(ref: Ref, pointer: str, step: PlanStep, inputs: frozenset[str]) -> Problems:
    if ref.step is not None:
        if ref.step not in step.deps:
            yield pointer, f"{ref} is not among its dependencies {list(step.deps)}"
    elif ref.source == "item":
        if step.foreach is None:
            yield pointer, "it refers to an item, but has no foreach"
    elif ref.source.removeprefix("input.") not in inputs:
        known = ", ".join(sorted(inputs)) or "none"
        yield pointer, f"there is no {ref.source!r}; inputs: {known}"
