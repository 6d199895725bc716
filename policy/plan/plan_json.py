"""Parses a plan: JSON from a model or a person becomes a `Plan`."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from contracts.errors import PlanInvalid
from contracts.json import Json, ObjectPairs, parse_json
from policy.plan.references import normalized_refs, parse_ref
from policy.types import Plan, PlanStep, Ref

MAX_CHARS = 2_000_000
MAX_STEPS = 1_000
MAX_DEPTH = 24
"""Nesting of the arguments of one step."""


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


def _document(text: str) -> Json:
    if len(text) > MAX_CHARS:
        raise PlanInvalid(f"the plan has {len(text)} characters, more than {MAX_CHARS}")
    try:
        text.encode("utf-8")
        return parse_json(text, _object_without_repeated_keys)
    except ValueError as error:
        raise PlanInvalid(f"the plan is not JSON: {error}") from error


def _object_without_repeated_keys(pairs: ObjectPairs) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} occurs twice")
    if any(_has_surrogate(name) for name in found):
        raise ValueError("a key is not Unicode")
    return found


def _plan_step(step: _Step, index: int) -> PlanStep:
    args: dict[str, Json] = dict(step.args.items())
    try:
        _check_values(args, MAX_DEPTH)
        for key in args:
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
        )
    except PlanInvalid as error:
        raise PlanInvalid(f"step {index} ({step.op}): {error}") from error


def _ref(reference: _Reference | None) -> Ref | None:
    return parse_ref(reference.ref) if reference else None


def _check_values(value: Json, depth: int) -> None:
    if depth < 0:
        raise PlanInvalid(f"arguments are nested more than {MAX_DEPTH} deep")
    if isinstance(value, str) and _has_surrogate(value):
        raise PlanInvalid(f"a text is not Unicode: {value[:40]!r}")
    if isinstance(value, (Mapping, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            _check_values(item, depth - 1)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
