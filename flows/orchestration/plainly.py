"""How a flow run ends that cannot be done: Failed, with one line that says why."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from prefect import State
from prefect.states import Failed

from contracts.errors import HarnessError

Asked = ParamSpec("Asked")
Report = TypeVar("Report")


def plainly(run: Callable[Asked, State[Report]]) -> Callable[Asked, State[Report]]:
    """The same function; what it raises for people to read becomes the state it gives.

    Anything else it raises is a bug or an outage nobody foresaw, and keeps its traceback.
    """

    @wraps(run)
    def told(*args: Asked.args, **kwargs: Asked.kwargs) -> State[Report]:
        try:
            return run(*args, **kwargs)
        except HarnessError as error:
            return Failed(message=str(error), data=error)

    return told
