"""`{"$ref": "step0.result/title"}` in a plan: found wherever it stands, and filled at run time."""

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
_KEY_REFUSED = re.compile(r"__|\$")


class LocatedRef(NamedTuple):
    """A reference, and where in the arguments it stands, such as `/to/0`."""

    pointer: str
    ref: Ref


class ReferenceMissing(Exception):
    """A path leads to nothing in the content."""


def parse_ref(text: str) -> Ref:
    """Read `step0.result/a/0`, `item/name` or `input.intent`.

    Raises:
        PlanInvalid: it is none of these.
    """
    match = _REF.fullmatch(text)
    if match is None:
        raise PlanInvalid(
            f"{text!r} is no reference: write step0.result, item or input.NAME, "
            "and a path such as /title after it"
        )
    path = tuple(part for part in match["path"].split("/")[1:])
    return Ref(match["step"] or match["other"], path)


def normalized_refs(value: Json, place: str = "") -> Json:
    """The value with every reference in its typed form.

    Raises:
        PlanInvalid: a reference is malformed or stands inside a text, or a key is not plain.
    """
    if isinstance(value, str):
        return _normalised_text(value, place)
    if isinstance(value, Mapping):
        if "$ref" in value:
            return {"$ref": str(_typed(value, place))}
        for key in value:
            _check_key(key, place)
        return {key: normalized_refs(item, f"{place}/{key}") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [normalized_refs(item, f"{place}/{i}") for i, item in enumerate(value)]
    return value


def refs_in(value: Json, place: str = "") -> Iterator[LocatedRef]:
    """Every reference in a value that `normalised` gave, at any depth."""
    if isinstance(value, Mapping):
        text = value.get("$ref")
        if isinstance(text, str):
            yield LocatedRef(place, parse_ref(text))
            return
        for key, item in sorted(value.items()):
            yield from refs_in(item, f"{place}/{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from refs_in(item, f"{place}/{index}")


def filled_refs(value: Json, lookup: Callable[[Ref], Json]) -> Json:
    """The value with each reference replaced by what `lookup` gives for it."""
    if isinstance(value, Mapping):
        text = value.get("$ref")
        if isinstance(text, str):
            return lookup(parse_ref(text))
        return {key: filled_refs(item, lookup) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [filled_refs(item, lookup) for item in value]
    return value


def value_at(content: Json, path: Sequence[str]) -> Json:
    """What stands at the path in the content.

    Raises:
        Missing: nothing stands there.
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


def _typed(value: Mapping[str, Json], place: str) -> Ref:
    text = value["$ref"]
    if len(value) != 1 or not isinstance(text, str):
        raise PlanInvalid(f'{place or "/"}: a reference is {{"$ref": "step0.result"}} alone')
    return parse_ref(text)


def _normalised_text(text: str, place: str) -> Json:
    if _INSIDE_TEXT.search(text) is None:
        return text
    if _REF.fullmatch(text):
        return {"$ref": text}
    raise PlanInvalid(
        f"{place or '/'}: a reference inside a text is never filled, in {text[:80]!r}; "
        'make it the whole value: {"$ref": "step0.result"}'
    )


def _check_key(key: str, place: str) -> None:
    if _KEY_REFUSED.match(key) or _INSIDE_TEXT.search(key):
        raise PlanInvalid(f"{place or '/'}: the key {key!r} is not one that arguments may have")
