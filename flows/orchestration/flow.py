"""Decorators for flows: required parameters, and expected errors as one line."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, ParamSpec, TypeVar

from prefect import Flow, State
from prefect.states import Failed
from prefect.utilities.callables import parameter_schema

from contracts.errors import HarnessError, OptionInvalid

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
        vars(flow)["__signature__"] = found.replace(parameters=required)  # the form's source
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
