"""Parses a plan, which is JSON from a model or a person, and checks it before a step runs."""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from contracts.errors import PlanInvalid
from contracts.json import Json, ObjectPairs, canonical_json, parse_json
from contracts.tool import Allowed, Decision, Denied
from policy.authority import Authority
from policy.plan.references import normalized_refs, parse_ref, refs_in
from policy.plan.registry import Registry
from policy.types import Plan, PlanStep, Ref

MAX_CHARS = 2_000_000
MAX_STEPS = 1_000
MAX_DEPTH = 28
"""Nesting of a plan."""

MAX_STEP_CHARS = 200_000


Problems = Iterator[tuple[str, str]]
"""Pointers into a step, each with a reason."""


class _Reference(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    ref: str = Field(alias="$ref", description="step0.result/path, item/path or input.NAME")


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, title="Step")

    op: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)
    args: dict[str, JsonValue] = Field(default_factory=dict, max_length=64)
    tool_caps: list[str] = Field(default_factory=list, max_length=64)
    data_caps: list[str] = Field(default_factory=list, max_length=64)
    deps: list[int] = Field(default_factory=list, max_length=MAX_STEPS)
    when: _Reference | None = None
    foreach: _Reference | None = None
    retry: int = Field(default=0, ge=0, le=5)
    compose: str | None = Field(default=None, max_length=20_000)
    compose_from: list[_Reference] = Field(default_factory=list, max_length=64)


_STEPS = TypeAdapter(list[_Step])


def plan_schema() -> dict[str, object]:
    """Return the JSON Schema of a plan for a model's reply: an object with the list `steps`."""
    steps = _STEPS.json_schema(ref_template="#/$defs/{model}")
    defs = steps.pop("$defs", {})
    return {
        "$defs": defs,
        "type": "object",
        "properties": {"steps": {**steps, "minItems": 1}},
        "required": ["steps"],
        "additionalProperties": False,
    }


def parse_plan(text: str, *, prompt: str) -> Plan:
    """Parse a list of steps, or an object with such a list as `steps`.

    References are normalized, dependencies are sorted and unique.

    Raises:
        PlanInvalid: it is not a plan, is too large or too deep, or has a key twice.
    """
    document = _document(text)
    if isinstance(document, Mapping) and set(document) == {"steps"}:
        document = document["steps"]
    try:
        steps = _STEPS.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        pointer = "/".join(str(part) for part in first["loc"])
        raise PlanInvalid(f"the plan is malformed at /{pointer}: {first['msg']}") from error
    if not 0 < len(steps) <= MAX_STEPS:
        raise PlanInvalid(f"a plan has 1 to {MAX_STEPS} steps, this one has {len(steps)}")
    return Plan(steps=tuple(_plan_step(step, i) for i, step in enumerate(steps)), prompt=prompt)


def parse_step(text: str) -> PlanStep:
    """Parse one step, as `PlanStep.as_json` writes it.

    Raises:
        PlanInvalid: it is not a step.
    """
    return parse_plan(f"[{text}]", prompt="").steps[0]


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


def _document(text: str) -> Json:
    if len(text) > MAX_CHARS:
        raise PlanInvalid(f"the plan has {len(text)} characters, more than {MAX_CHARS}")
    try:
        document = parse_json(text, _object_without_repeated_keys, max_depth=MAX_DEPTH)
        canonical_json(document).encode()  # a lone surrogate could not be stored in the event log
    except UnicodeEncodeError as error:
        raise PlanInvalid("the plan holds text that is not Unicode") from error
    except ValueError as error:
        raise PlanInvalid(f"the plan is not JSON: {error}") from error
    return document


def _object_without_repeated_keys(pairs: ObjectPairs) -> Json:
    names = [name for name, _ in pairs]
    # Parsers disagree on which of two equal keys counts.
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the key {name!r} occurs twice")
    return dict(pairs)


def _plan_step(step: _Step, index: int) -> PlanStep:
    args: dict[str, Json] = dict(step.args.items())
    try:
        for key in args:
            # Names become keyword arguments of a Python function.
            if not key.isidentifier() or key.startswith("_"):
                raise PlanInvalid(f"{key!r} is not the name of an argument")
        return PlanStep(
            op=step.op,
            args={key: normalized_refs(value, f"/{key}") for key, value in args.items()},
            tool_caps=frozenset(step.tool_caps),
            data_caps=frozenset(step.data_caps),
            deps=tuple(sorted(set(step.deps))),
            when=_ref(step.when),
            foreach=_ref(step.foreach),
            retry=step.retry,
            compose=step.compose,
            compose_from=tuple(parse_ref(one.ref) for one in step.compose_from),
        )
    except PlanInvalid as error:
        raise PlanInvalid(f"step {index} ({step.op}): {error}") from error


def _ref(reference: _Reference | None) -> Ref | None:
    return parse_ref(reference.ref) if reference else None


def _operation_problems(step: PlanStep, registry: Registry) -> Problems:
    operation = registry.get(step.op)
    if operation is None:
        known = ", ".join(sorted(one.name for one in registry))
        yield "/op", f"no operation {step.op!r}; known: {known}"
        return
    for name in step.args.keys() - operation.roles.keys():
        takes = ", ".join(operation.roles)
        yield f"/{name}", f"{step.op} takes no {name!r}; it takes: {takes}"
    composed = operation.open_content(step)
    for name in sorted(operation.required - step.args.keys() - composed):
        yield f"/{name}", f"{step.op} needs {name!r}"
    if step.compose is not None and not composed:
        yield "/compose", "args gives all content: leave out what shall be composed"
    if step.compose is None and step.compose_from:
        yield "/compose_from", "the step has no compose"
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
    for ref in step.compose_from:
        yield from _target_problems(ref, "/compose_from", step, inputs)
    for name, control in (("when", step.when), ("foreach", step.foreach)):
        if control is not None and control.source == "item":
            yield f"/{name}", "only the arguments may refer to an item"
        elif control is not None:
            yield from _target_problems(control, f"/{name}", step, inputs)


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
