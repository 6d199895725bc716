"""Decorators for flows: the form of a run request, required parameters, expected errors."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, ParamSpec, TypeVar

from prefect import Flow, State
from prefect.states import Failed
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from blueprints.types import Blueprint
from contracts.errors import HarnessError, OptionInvalid
from flows.runs.request import RunRequest

Params = ParamSpec("Params")
Report = TypeVar("Report")
AnyFlow = TypeVar("AnyFlow", bound=Flow[..., Any])

NOT_GIVEN: Final = ""
"""Default of a parameter that `required_parameters` names."""


def required_parameters(*names: str) -> Callable[[AnyFlow], AnyFlow]:
    """Mark parameters that have defaults as required in the flow's form.

    A schedule can omit a parameter that the form requires. Without a default, Prefect would crash
    the run before our code starts; `check_required` refuses it with one line instead.
    """

    def require(flow: AnyFlow) -> AnyFlow:
        found = signature(flow.fn, eval_str=True)
        required = [
            one.replace(default=Parameter.empty) if one.name in names else one
            for one in found.parameters.values()
        ]
        vars(flow)["__signature__"] = found.replace(
            parameters=required
        )  # Prefect builds the form from it
        flow.parameters = parameter_schema(flow)
        return flow

    return require


def check_required(given: Mapping[str, str]) -> None:
    """Refuse a run that was started without a required parameter.

    Raises:
        OptionInvalid: names the first missing parameter and where to set it.
    """
    for name, value in given.items():
        if value == NOT_GIVEN:
            raise OptionInvalid(
                f"no `{name}` was given: write it in the form, in the parameters of the schedule, "
                "or in the deployment's defaults"
            )


def expected_errors(run: Callable[Params, State[Report]]) -> Callable[Params, State[Report]]:
    """Turn a `HarnessError` into a Failed state with its one-line message.

    Any other exception is a bug or an outage and keeps its traceback.
    """

    @wraps(run)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> State[Report]:
        try:
            return run(*args, **kwargs)
        except HarnessError as error:
            return Failed(message=str(error), data=error)

    return wrapped


RunFunction = TypeVar("RunFunction", bound=Callable[..., object])

_NOT_ON_A_FORM = frozenset({"wait_approvals_s"})
"""A flow run suspends while it waits for a person, so it needs no time limit for that."""


def request_form(
    blueprint: Blueprint | None = None,
    *,
    model: type[BaseModel] = RunRequest,
    without: Collection[str] = (),
) -> Callable[[RunFunction], RunFunction]:
    """Give a function that takes `**fields` the fields of a request as its parameters.

    With a blueprint, the field "options" lists the options of the blueprint.
    """

    def give_parameters(function: RunFunction) -> RunFunction:
        parameters = [
            _parameter(name, field, blueprint)
            for name, field in model.model_fields.items()
            if name not in {*_NOT_ON_A_FORM, *without}
        ]
        returns = function.__annotations__.get("return", Parameter.empty)
        vars(function)["__signature__"] = Signature(parameters, return_annotation=returns)
        return function

    return give_parameters


def _parameter(name: str, field: FieldInfo, blueprint: Blueprint | None) -> Parameter:
    # Prefect overwrites a field's title and description, but not those in json_schema_extra.
    shown: JsonDict = {"title": field.title or name, "description": field.description or ""}
    if field.is_required():
        default: object = NOT_GIVEN
        shown["minLength"] = 1  # in the form only; `check_required` has a better message
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
