"""A flow whose parameters are plain JSON: text, numbers, lists and objects of them."""

from typing import Any, ParamSpec, TypeVar

from prefect import Flow

Asked = ParamSpec("Asked")
Given = TypeVar("Given")


class PlainFlow(Flow[Asked, Given]):
    """Prefect imports FastAPI to make parameters JSON, a tenth of a second; these are it."""

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The same: there is nothing to make of them."""
        return parameters
