"""Operations of plans: what each requires, and the role of each of its parameters."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from contracts.entity import EMPTY_LABEL, Label, join_labels
from contracts.errors import OperationInvalid
from contracts.json import Json, as_mapping
from policy.types import Effect, PlanStep, Role

Arguments = Mapping[str, Json]
RunOperation = Callable[..., Json]
LabelOf = Callable[[Arguments, Json], Label | Sequence[Label]]
"""Returns the label of data that the operation reads from outside, from arguments and result.

A sequence holds one label for each item of a result that is a list. A tag `readers:…` names the
addresses that may receive an item. Before the operation has run, the result is None.
"""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation that a step may use.

    The policy decides by `effect`, `requires` and `roles`. `place` names a store, such as the
    workspace: its label grows with everything written to it, and is on everything read from it.
    `vouched` means that a person wrote the result, which therefore has no taint.
    """

    name: str
    description: str
    effect: Effect
    requires: frozenset[str]
    roles: Mapping[str, Role]
    arguments: type[BaseModel]
    run: RunOperation
    label_of: LabelOf = field(default=lambda _arguments, _result: EMPTY_LABEL)
    place: str | None = None
    vouched: bool = False

    @cached_property
    def required(self) -> frozenset[str]:
        """The parameters without a default."""
        fields = self.arguments.model_fields
        return frozenset(name for name in fields if fields[name].is_required())

    @cached_property
    def parameters(self) -> dict[str, object]:
        """The JSON Schema of the arguments."""
        return self.arguments.model_json_schema()

    def open_content(self, step: PlanStep) -> frozenset[str]:
        """Return the parameters that a model writes: content that a step with `compose` omits."""
        content = (name for name, role in self.roles.items() if role == "content")
        return frozenset(content if step.compose is not None else ()) - step.args.keys()

    def parameters_only(self, names: Sequence[str]) -> dict[str, object]:
        """Return the JSON Schema of some of the arguments."""
        schemas = as_mapping(self.parameters.get("properties"))
        return {
            **self.parameters,
            "properties": {name: schemas[name] for name in names},
            "required": [name for name in names if name in self.required],
        }

    def as_json(self) -> dict[str, Json]:
        """Return everything that the policy decides by, except the name."""
        return {
            "effect": self.effect,
            "requires": sorted(self.requires),
            "roles": dict(self.roles),
            "place": self.place,
        }

    def label(self, arguments: Arguments, result: Json = None) -> Label:
        """Return the label of all that the operation reads from outside."""
        found = self.label_of(arguments, result)
        return found if isinstance(found, Label) else join_labels(found)

    def item_labels(self, arguments: Arguments, result: Json) -> Sequence[Label]:
        """Return the label of each item of the result; empty if items have no labels of their own.

        Raises:
            OperationInvalid: the operation gives another number of labels than of items.
        """
        found = self.label_of(arguments, result)
        if isinstance(found, Label):
            return ()
        items = len(result) if isinstance(result, (list, tuple)) else 0
        if len(found) != items:
            raise OperationInvalid(f"{self.name}: {len(found)} labels for {items} items")
        return found

    def call(self, arguments: Arguments) -> Json:
        """Run the operation without asking the policy; only `StepAuthorizer` may call this.

        Raises:
            OperationInvalid: as `check`.
        """
        checked = self.check(arguments)
        return self.run(**{name: getattr(checked, name) for name in self.roles})

    def check(self, arguments: Arguments) -> BaseModel:
        """Return the validated arguments.

        Raises:
            OperationInvalid: an argument is missing, unknown, or not what the operation takes.
        """
        try:
            return self.arguments.model_validate(plain_json(arguments))
        except ValidationError as error:
            errors = error.errors(include_url=False)
            # A union reports each of its types; a check of ours says what is wrong with the value.
            first = next((one for one in errors if one["type"] == "value_error"), errors[0])
            found = first["msg"].removeprefix("Value error, ")
            raise OperationInvalid(f"{self.name}: argument /{first['loc'][0]}: {found}") from error


class Registry:
    """The operations that plans may use; every other operation is denied."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        found: dict[str, Operation] = {}
        for one in operations:
            if one.name in found:
                raise OperationInvalid(f"there are two operations named {one.name!r}")
            found[one.name] = one
        self._operations = MappingProxyType(found)

    def get(self, name: str) -> Operation | None:
        """Return the operation, or None."""
        return self._operations.get(name)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations.values())

    def as_json(self) -> Json:
        """Return everything that decisions depend on, for the version of the policy."""
        return {one.name: {**one.as_json(), "vouched": one.vouched} for one in self}


def operation(
    *,
    effect: Effect,
    requires: Iterable[str],
    label_of: LabelOf | None = None,
    place: str | None = None,
    vouched: bool = False,
) -> Callable[[RunOperation], Operation]:
    """Make an operation from a function whose parameters declare their roles:

        @operation(effect="egress", requires=["SEND_EMAIL"])
        def send_email(to: Annotated[list[str], "recipient"], body: Annotated[str, "content"]):
            \"\"\"Send a mail.\"\"\"

    Raises:
        OperationInvalid: a parameter has no role, the function has no docstring, or `requires`
            is empty.
    """
    capabilities = frozenset(requires)

    def make(run: RunOperation) -> Operation:
        name = run.__name__
        if not capabilities:
            raise OperationInvalid(f"operation {name!r} must require a capability")
        if not run.__doc__:
            raise OperationInvalid(f"operation {name!r} needs a docstring: planners read it")
        # Modules with `from __future__ import annotations` have text as annotations.
        parameters = inspect.signature(run, eval_str=True).parameters
        return Operation(
            name=name,
            description=inspect.cleandoc(run.__doc__),
            effect=effect,
            requires=capabilities,
            roles=MappingProxyType(
                {key: _role(name, key, one.annotation) for key, one in parameters.items()}
            ),
            arguments=_arguments_model(name, parameters),
            run=run,
            label_of=label_of or (lambda _arguments, _result: EMPTY_LABEL),
            place=place,
            vouched=vouched,
        )

    return make


def _role(operation_name: str, parameter: str, hint: object) -> Role:
    annotations = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    for role in get_args(Role):
        if role in annotations:
            return cast(Role, role)  # a member of the literal
    raise OperationInvalid(
        f"parameter {parameter!r} of operation {operation_name!r} has no role: write "
        f'Annotated[…, "content"], or another of {", ".join(get_args(Role))}'
    )


def _arguments_model(name: str, parameters: Mapping[str, inspect.Parameter]) -> type[BaseModel]:
    fields: dict[str, object] = {}
    for key, parameter in parameters.items():
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[key] = (parameter.annotation, default)
    config = ConfigDict(extra="forbid", strict=True, frozen=True)
    made: type[BaseModel] = create_model(  # type: ignore[call-overload]  # fields are computed
        name, __config__=config, **fields
    )
    return made


def plain_json(value: object) -> object:
    """Return frozen JSON as plain lists and dictionaries, which libraries accept."""
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value
