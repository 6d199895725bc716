"""JSON as a value: its type, one spelling of it, and its digest."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

Json: TypeAlias = str | int | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None


MAX_JSON_DEPTH = 100
"""Values within values that are read; ours are never a quarter as deep."""

ObjectPairs: TypeAlias = list[tuple[str, Json]]


def parse_json(text: str, pairs: Callable[[ObjectPairs], Json] = dict) -> Json:
    """The value that a text of JSON, whoever wrote it, stands for.

    `pairs` makes a value of an object.

    Raises:
        ValueError: it is no JSON, holds a number that is none or is beyond all floats, or is
            nested more than `NESTED` deep.
    """
    try:
        value: Json = json.loads(
            text, object_pairs_hook=pairs, parse_constant=_number, parse_float=_number
        )
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_JSON_DEPTH} deep") from None
    _check_depth(value, MAX_JSON_DEPTH)
    return value


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number


def _check_depth(value: Json, left: int) -> None:
    if not left:
        raise ValueError(f"it is nested more than {MAX_JSON_DEPTH} deep")
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(inner, Iterable) and not isinstance(inner, str):
        for item in inner:
            _check_depth(item, left - 1)


def as_mapping(raw: object) -> Mapping[str, object]:
    """The object that this is; an empty one where it is none."""
    return raw if isinstance(raw, Mapping) else {}


def as_mappings(raw: object) -> list[Mapping[str, object]]:
    """The objects in this list; none where it is no list."""
    found = raw if isinstance(raw, list) else []
    return [part for part in found if isinstance(part, Mapping)]


def text_at(raw: object, *names: str) -> str:
    """The text under these names, one inside the other; empty where there is none."""
    for name in names:
        raw = as_mapping(raw).get(name)
    return raw if isinstance(raw, str) else ""


def canonical_json(value: Json) -> str:
    """The one spelling of a value: keys sorted, no spaces, UTF-8 as it is.

    Raises:
        ValueError: a number that JSON does not have, such as NaN.
    """
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=dict,  # frozen mappings
    )


def json_digest(value: Json) -> str:
    """64 hex digits that name this value and no other."""
    return sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def deep_freeze(value: Json) -> Json:
    """The same value, which nobody can change any more."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: deep_freeze(item) for key, item in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(deep_freeze(item) for item in value)
    return value
