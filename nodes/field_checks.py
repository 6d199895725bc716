"""Checks of the values that a blueprint gives. Each message names file, line and node."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from reprlib import repr as short_repr
from types import FrameType
from typing import TypeGuard, get_origin

from contracts.errors import BadInput, BlueprintInvalid
from nodes.node_errors import is_harness
from nodes.text import check_text


def place_of_caller() -> str:
    """Return `file:line` of the innermost call that does not come from Harness itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_harness(str(frame.f_globals.get("__name__"))):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def at(place: str, text: str) -> str:
    """Return the text with the place before it, if the place is known."""
    return f"{place}: {text}" if place else text


@dataclass(frozen=True)
class FieldChecks:
    """Checks of the fields of one node, step or blueprint. All raise `BlueprintInvalid`."""

    kind: str
    name: str
    place: str

    def invalid(self, problem: str) -> BlueprintInvalid:
        """Return the error, with the place and the name before the problem."""
        return BlueprintInvalid(at(self.place, f"{self.kind} {self.name!r} {problem}"))

    def wrong(self, field: str, value: object, wanted: str) -> BlueprintInvalid:
        """Return the error for the value of a field."""
        return self.invalid(f"has {field}={short_repr(value)}: it must be {wanted}")

    def one_line_name(self) -> None:
        name: object = self.name
        if not isinstance(name, str):
            raise self._unnamed(f"has the name {short_repr(name)}: a name must be text")
        if not name.strip():
            raise self._unnamed(f"has an empty name: give each {self.kind} a name of its own")
        if not name.isprintable():
            raise self._unnamed(
                f"is called {name!r}: a name is one line without control characters"
            )

    def text(self, field: str, value: object) -> None:
        if not isinstance(value, str):
            raise self.wrong(field, value, "text")
        try:
            check_text(field, value)
        except BadInput as error:
            raise self.invalid(f"is wrong: {error}") from error

    def flag(self, field: str, value: object) -> None:
        if not isinstance(value, bool):
            raise self.wrong(field, value, "True or False")

    def count(self, field: str, value: object, *, least: int) -> None:
        if type(value) is not int or value < least:
            raise self.wrong(field, value, f"a whole number, {least} or more")

    def each(self, field: str, values: object, kind: type, wanted: str) -> None:
        """Check that the values are a list or tuple, and each of them of this type."""
        if not is_list(values):
            raise self.wrong(field, values, f"a list of {wanted}")
        for value in values:
            if not isinstance(value, kind):
                raise self.invalid(f"has {short_repr(value)} in {field}: give {wanted}")

    def function(self, field: str, value: object, *arguments: str, returns: type = object) -> None:
        """Check that the value can be called with these arguments.

        A declared return type must fit; what an undeclared one returns is known when it runs.
        """
        wanted = f"a function of ({', '.join(arguments)})"
        if returns is not object:
            wanted += f" that returns {'text' if returns is str else f'a {returns.__name__}'}"
        if not callable(value):
            raise self.wrong(field, value, wanted)
        if not _returns_at_once(value):
            raise self.wrong(field, value, f"{wanted}, without async and yield")
        try:
            signature = inspect.signature(value)
            signature.bind(*arguments)
        except (TypeError, ValueError) as error:
            raise self.wrong(field, value, f"{wanted} ({error})") from error
        declared = signature.return_annotation
        if declared is None or get_origin(declared) is Callable:
            raise self.wrong(field, value, f"{wanted}, not {declared}")
        if isinstance(value, type):
            declared = value
        if declared is inspect.Signature.empty or not isinstance(declared, type):
            return
        if not issubclass(declared, returns):
            raise self.wrong(field, value, f"{wanted}, not a {declared.__name__}")

    def _unnamed(self, problem: str) -> BlueprintInvalid:
        return BlueprintInvalid(at(self.place, f"a {self.kind} {problem}"))


def is_list(values: object) -> TypeGuard[Sequence[object]]:
    """Return True for a list or a tuple; text is none."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _returns_at_once(function: Callable[..., object]) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    called = getattr(function, "__call__", None)  # noqa: B004 - an instance may have an async one
    return not any(kind(one) for kind in kinds for one in (function, called))
