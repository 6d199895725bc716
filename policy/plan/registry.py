"""Operations: what a step may do, what that needs, and what each of its parameters decides."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from contracts.entity import EMPTY_LABEL, Label
from contracts.errors import OperationInvalid
from contracts.json import Json
from policy.types import Effect, Role, ToolCap

Arguments = Mapping[str, Json]
RunOperation = Callable[..., Json]
LabelOf = Callable[[Arguments], Label]
"""What the outside adds to the label of a result, from the arguments: its origin, its tags."""

TOOL_CAPS = (
    ToolCap(id="READ_FILE", scope="fs"),
    ToolCap(id="WRITE_FILE", scope="fs"),
    ToolCap(id="RUN_COMMAND", scope="sandbox"),
    ToolCap(id="RUN_BLUEPRINT", scope="harness"),
    ToolCap(id="HTTP_FETCH", scope="web"),
    ToolCap(id="SEND_EMAIL", scope="smtp"),
    ToolCap(id="GIT_COMMIT", scope="git"),
    ToolCap(id="GIT_PUSH", scope="git"),
    ToolCap(id="ASK_PERSON", scope="person"),
    ToolCap(id="ASK_MODEL", scope="model"),
)
"""The tool capabilities that the ready operations need."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing that a step may do.

    `roles` and `effect` are required: they are what the policy decides by. `place` names a
    store whose label grows with all that is written there and is on all that is read there,
    such as the workspace. `vouched` says that a person wrote the result, so nothing that the
    person saw taints it.
    """

    name: str
    description: str
    effect: Effect
    requires: frozenset[str]
    roles: Mapping[str, Role]
    arguments: type[BaseModel]
    run: RunOperation
    label_of: LabelOf = field(default=lambda _: EMPTY_LABEL)
    place: str | None = None
    vouched: bool = False

    @cached_property
    def required(self) -> frozenset[str]:
        """Parameters without a default."""
        fields = self.arguments.model_fields
        return frozenset(name for name in fields if fields[name].is_required())

    @cached_property
    def parameters(self) -> dict[str, object]:
        """The JSON Schema of the arguments."""
        return self.arguments.model_json_schema()

    def call(self, arguments: Arguments) -> Json:
        """Run it, whatever the policy says: only the executor calls this, after it asked.

        Raises:
            OperationInvalid: an argument is missing, unknown or of the wrong type.
        """
        try:
            checked = self.arguments.model_validate(plain_json(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = "/".join(str(part) for part in first["loc"])
            raise OperationInvalid(f"{self.name}: argument /{place}: {first['msg']}") from error
        return self.run(**{name: getattr(checked, name) for name in self.roles})


class Registry:
    """The operations that plans may name. What is not here may not be done."""

    def __init__(self, operations: Iterable[Operation], caps: Iterable[ToolCap] = ()) -> None:
        found: dict[str, Operation] = {}
        for one in operations:
            if one.name in found:
                raise OperationInvalid(f"the operation {one.name!r} is there twice")
            found[one.name] = one
        self._operations = MappingProxyType(found)
        self.tool_caps = frozenset(cap.id for cap in (*TOOL_CAPS, *caps)) | frozenset(
            cap for one in found.values() for cap in one.requires
        )

    def get(self, name: str) -> Operation | None:
        """The operation, or None."""
        return self._operations.get(name)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations.values())

    def as_json(self) -> Json:
        """What the policy's version is made of."""
        return {
            one.name: {
                "effect": one.effect,
                "requires": sorted(one.requires),
                "roles": one.roles,
                "place": one.place,
                "vouched": one.vouched,
            }
            for one in self
        }


def operation(
    *,
    effect: Effect,
    requires: Iterable[str],
    label_of: LabelOf | None = None,
    place: str | None = None,
    vouched: bool = False,
) -> Callable[[RunOperation], Operation]:
    """Make an operation of a function whose every parameter says its role:

        @operation(effect="egress", requires=["SEND_EMAIL"])
        def send_email(to: Annotated[list[str], "recipient"], body: Annotated[str, "content"]):
            \"\"\"Send a mail.\"\"\"

    Raises:
        OperationInvalid: a parameter has no role, the function no docstring, or it needs nothing.
    """
    needed = frozenset(requires)

    def made(run: RunOperation) -> Operation:
        name = run.__name__
        if not needed:
            raise OperationInvalid(f"operation {name!r} must require a capability")
        if not run.__doc__:
            raise OperationInvalid(f"operation {name!r} needs a docstring: planners read it")
        return Operation(
            name=name,
            description=inspect.cleandoc(run.__doc__),
            effect=effect,
            requires=needed,
            roles=MappingProxyType(_roles(run)),
            arguments=_model(run),
            run=run,
            label_of=label_of or (lambda _: EMPTY_LABEL),
            place=place,
            vouched=vouched,
        )

    return made


def _roles(run: RunOperation) -> dict[str, Role]:
    parameters = _parameters(run).items()
    return {name: _role(run.__name__, name, held.annotation) for name, held in parameters}


def _role(operation_name: str, parameter: str, hint: object) -> Role:
    named = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    for role in get_args(Role):
        if role in named:
            return cast(Role, role)  # one of its own members
    raise OperationInvalid(
        f"parameter {parameter!r} of operation {operation_name!r} has no role: write "
        f'Annotated[…, "content"], or another of {", ".join(get_args(Role))}'
    )


def _model(run: RunOperation) -> type[BaseModel]:
    fields: dict[str, object] = {}
    for name, parameter in _parameters(run).items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[name] = (parameter.annotation, default)
    config = ConfigDict(extra="forbid", strict=True, frozen=True)
    made: type[BaseModel] = create_model(  # type: ignore[call-overload]  # fields are computed
        run.__name__, __config__=config, **fields
    )
    return made


def _parameters(run: RunOperation) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(run, eval_str=True).parameters


def plain_json(value: object) -> object:
    """The value as plain lists and dictionaries, which libraries know."""
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value
