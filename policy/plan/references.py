"""References in a plan, `{"$ref": "step0.result/title"}`: parsed, found, and filled at run time."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from contracts.errors import PlanInvalid
from contracts.json import Json
from policy.types import Ref

_REF = re.compile(
    r"(?:(?P<step>step(?:0|[1-9]\d{0,5}))\.result|(?P<other>item|input\.[a-z][a-z0-9_]*))"
    r"(?P<path>(?:/[^/]*)*)"
)
_INSIDE_TEXT = re.compile(r"step\d+\.result|\$ref\b|\$\{\s*(?:step|item|input)|\{\{")
_INDEX = re.compile(r"[0-9]{1,9}")
_FORBIDDEN_KEY = re.compile(r"__|\$")


class LocatedRef(NamedTuple):
    """A reference, and its position in the arguments, such as `/to/0`."""

    pointer: str
    ref: Ref


class ReferenceMissing(Exception):
    """A reference leads to no value."""


def parse_ref(text: str) -> Ref:
    """Parse `step0.result/a/0`, `item/name` or `input.intent`.

    Raises:
        PlanInvalid: it is none of these.
    """
    match = _REF.fullmatch(text)
    if match is None:
        raise PlanInvalid(
            f"{text!r} is not a reference: write step0.result, item or input.NAME, optionally "
            "followed by a path such as /title"
        )
    return Ref(match["step"] or match["other"], tuple(match["path"].split("/")[1:]))


def normalized_refs(value: Json, pointer: str = "") -> Json:
    """Return the value with every reference in the form `{"$ref": …}`.

    Raises:
        PlanInvalid: a reference is malformed or inside a text, or a key is not allowed.
    """
    if isinstance(value, str):
        return _normalized_text(value, pointer)
    if isinstance(value, Mapping):
        # Also an object with further keys, which is refused, so that no reference is overlooked.
        if "$ref" in value:
            return {"$ref": str(_parsed_object(value, pointer))}
        for key in value:
            if _FORBIDDEN_KEY.match(key) or _INSIDE_TEXT.search(key):
                raise PlanInvalid(f"{pointer or '/'}: the key {key!r} is not allowed in arguments")
        return {key: normalized_refs(item, f"{pointer}/{key}") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [normalized_refs(item, f"{pointer}/{i}") for i, item in enumerate(value)]
    return value


def refs_in(value: Json, pointer: str = "") -> Iterator[LocatedRef]:
    """Yield every reference in a normalized value, at any depth."""
    if isinstance(value, Mapping):
        text = value.get("$ref")
        if isinstance(text, str):
            yield LocatedRef(pointer, parse_ref(text))
            return
        # Sorted, so that the order is that of a plan read from canonical JSON.
        for key, item in sorted(value.items()):
            yield from refs_in(item, f"{pointer}/{key}")
    elif _is_list(value):
        for index, item in enumerate(value):
            yield from refs_in(item, f"{pointer}/{index}")


def filled_refs(value: Json, lookup: Callable[[Ref], Json]) -> Json:
    """Return the value with each reference replaced by the result of `lookup`."""
    if isinstance(value, Mapping):
        text = value.get("$ref")
        if isinstance(text, str):
            return lookup(parse_ref(text))
        return {key: filled_refs(item, lookup) for key, item in value.items()}
    if _is_list(value):
        return [filled_refs(item, lookup) for item in value]
    return value


def value_at(content: Json, path: Sequence[str]) -> Json:
    """Return the value at a path in the content.

    Raises:
        ReferenceMissing: there is none.
    """
    for part in path:
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif _is_list(content) and _INDEX.fullmatch(part) and int(part) < len(content):
            content = content[int(part)]
        else:
            raise ReferenceMissing(part)
    return content


def _is_list(content: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(content, Sequence) and not isinstance(content, str)


def _parsed_object(value: Mapping[str, Json], pointer: str) -> Ref:
    text = value["$ref"]
    if len(value) != 1 or not isinstance(text, str):
        raise PlanInvalid(
            f'{pointer or "/"}: a reference is exactly {{"$ref": "step0.result"}}, without '
            "other keys"
        )
    return parse_ref(text)


def _normalized_text(text: str, pointer: str) -> Json:
    if _INSIDE_TEXT.search(text) is None:
        return text
    if _REF.fullmatch(text):
        return {"$ref": text}
    raise PlanInvalid(
        f"{pointer or '/'}: a reference inside a text is never filled, in {text[:80]!r}; "
        'make it the whole value: {"$ref": "step0.result"}'
    )
