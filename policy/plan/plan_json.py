"""The border where a plan comes in: JSON that a model or a person wrote, made into a `Plan`."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from contracts.errors import PlanInvalid
from contracts.json import Json, ObjectPairs, parse_json
from policy.plan.references import normalized_refs, parse_ref
from policy.types import Plan, PlanStep, Ref

MAX_CHARS = 2_000_000
MAX_STEPS = 1_000
MAX_DEPTH = 24
"""Of the arguments of one step."""


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
    """The JSON Schema of a plan, as a model is held to it: an object with the list `steps`."""
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
    """Read a plan: a list of steps, or an object that holds it as `steps`.

    References come out in their typed form, dependencies sorted and without repetition.

    Raises:
        PlanInvalid: it is no such JSON; too large, too deep or with a key twice.
    """
    document = _document(text)
    if isinstance(document, Mapping) and set(document) == {"steps"}:
        document = document["steps"]
    try:
        steps = _STEPS.validate_python(document)
    except ValidationError as error:
        raise PlanInvalid(_first(error)) from error
    if not 0 < len(steps) <= MAX_STEPS:
        raise PlanInvalid(f"a plan has 1 to {MAX_STEPS} steps, this one has {len(steps)}")
    return Plan(steps=tuple(_step(step, i) for i, step in enumerate(steps)), prompt=prompt)


def parse_step(text: str) -> PlanStep:
    """Read one step, as `Step.as_json` writes it.

    Raises:
        PlanInvalid: it is none.
    """
    return parse_plan(f"[{text}]", prompt="").steps[0]


def _document(text: str) -> Json:
    if len(text) > MAX_CHARS:
        raise PlanInvalid(f"the plan has {len(text)} characters, more than {MAX_CHARS}")
    try:
        text.encode("utf-8")
        return parse_json(text, _once)
    except ValueError as error:
        raise PlanInvalid(f"the plan is not JSON: {error}") from error


def _once(pairs: ObjectPairs) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    if any("\ud800" <= char <= "\udfff" for name in found for char in name):
        raise ValueError("a key is not Unicode")
    return found


def _step(step: _Step, index: int) -> PlanStep:
    args: dict[str, Json] = dict(step.args.items())
    try:
        _check_values(args, MAX_DEPTH)
        return PlanStep(
            op=step.op,
            args={key: normalized_refs(value, f"/{key}") for key, value in _plain(args).items()},
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


def _plain(args: dict[str, Json]) -> dict[str, Json]:
    for key in args:
        if not key.isidentifier() or key.startswith("_"):
            raise PlanInvalid(f"{key!r} is no name of an argument")
    return args


def _ref(reference: _Reference | None) -> Ref | None:
    return parse_ref(reference.ref) if reference else None


def _check_values(value: Json, depth: int) -> None:
    if depth < 0:
        raise PlanInvalid(f"arguments are nested more than {MAX_DEPTH} deep")
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise PlanInvalid(f"a text is not Unicode: {value[:40]!r}")
    elif isinstance(value, Mapping):
        for item in value.values():
            _check_values(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            _check_values(item, depth - 1)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = "/".join(str(part) for part in first["loc"])
    return f"the plan is malformed at /{place}: {first['msg']}"
