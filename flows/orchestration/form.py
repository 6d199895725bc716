"""Prefect's form for a run: one flow parameter per field of `RunRequest`, in the same order."""

from collections.abc import Callable, Collection
from inspect import Parameter, Signature
from typing import Annotated, TypeVar

from pydantic import Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from blueprints.types import Blueprint
from flows.orchestration.flow import NOT_GIVEN
from flows.runs.request import RunRequest

RunFunction = TypeVar("RunFunction", bound=Callable[..., object])

_NOT_ON_A_FORM = frozenset({"wait_approvals_s"})
"""A flow run suspends while it waits for a person, so it needs no time limit for that."""


def request_form(
    blueprint: Blueprint | None = None, *, without: Collection[str] = ()
) -> Callable[[RunFunction], RunFunction]:
    """Give a function that takes `**fields` the parameters of a run request.

    With a blueprint, the field "options" lists the options of the blueprint.
    """

    def give_parameters(function: RunFunction) -> RunFunction:
        parameters = [
            _parameter(name, field, blueprint)
            for name, field in RunRequest.model_fields.items()
            if name not in {*_NOT_ON_A_FORM, *without}
        ]
        returns = function.__annotations__.get("return", Parameter.empty)
        vars(function)["__signature__"] = Signature(parameters, return_annotation=returns)
        return function

    return give_parameters


def _parameter(name: str, field: FieldInfo, blueprint: Blueprint | None) -> Parameter:
    # Prefect overwrites a field's own title and description, but not these.
    shown: JsonDict = {"title": field.title or name, "description": field.description or ""}
    if field.is_required():
        default: object = NOT_GIVEN
        shown["minLength"] = 1  # in the form only: `check_given` refuses it with a better line
    else:
        default = field.get_default(call_default_factory=True)
    kind: object = field.annotation
    if name == "options" and blueprint is not None:
        kind = Annotated[kind, WithJsonSchema(_options_schema(blueprint))]
    for limit in field.metadata:
        kind = Annotated[kind, limit]
    kind = Annotated[kind, Field(json_schema_extra=shown)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _options_schema(blueprint: Blueprint) -> JsonDict:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "title": name, "description": _sentence(meaning)}
            for name, meaning in blueprint.options
        },
        "additionalProperties": False,
    }


def _sentence(meaning: str) -> str:
    return f"{meaning[:1].upper()}{meaning[1:]}."
