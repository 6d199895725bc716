"""Flows whose parameters are plain JSON, and what of them a person has to give."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, Final, ParamSpec, TypeVar

from prefect import Flow
from prefect.utilities.callables import parameter_schema

from contracts.errors import OptionInvalid

Asked = ParamSpec("Asked")
Given = TypeVar("Given")
AnyFlow = TypeVar("AnyFlow", bound=Flow[..., Any])

NOT_GIVEN: Final = ""
"""The default of a parameter that `must_be_given`."""


class PlainFlow(Flow[Asked, Given]):
    """Prefect imports FastAPI to make parameters JSON, a tenth of a second; these are it."""

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The same: there is nothing to make of them."""
        return parameters


def must_be_given(*names: str) -> Callable[[AnyFlow], AnyFlow]:
    """A decorator: the flow's form asks for these parameters though the flow has defaults for them.

    A schedule may leave out what a form may not. Prefect crashes a run without a parameter that
    has no default before any of our code sees it; so `check_given` tells, in one line.
    """

    def ask(flow: AnyFlow) -> AnyFlow:
        known = signature(flow.fn, eval_str=True)
        asked = [
            one.replace(default=Parameter.empty) if one.name in names else one
            for one in known.parameters.values()
        ]
        vars(flow)["__signature__"] = known.replace(parameters=asked)  # the form is made from it
        flow.parameters = parameter_schema(flow)
        return flow

    return ask


def check_given(given: Mapping[str, str]) -> None:
    """Refuse a run that was started without a parameter that `must_be_given`.

    Raises:
        OptionInvalid: names the first that is missing, and where it belongs.
    """
    for name, value in given.items():
        if value == NOT_GIVEN:
            raise OptionInvalid(
                f"no `{name}` was given: write it in the form, in the parameters of the schedule, "
                "or in the deployment's defaults"
            )
