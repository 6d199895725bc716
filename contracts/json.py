"""JSON values: type, strict parser, canonical text and digest."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

Json: TypeAlias = str | int | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None


MAX_JSON_DEPTH = 100
"""Levels of nesting that `parse_json` accepts. Values that Harness writes have fewer than 25."""

ObjectPairs: TypeAlias = list[tuple[str, Json]]


def parse_json(
    text: str, pairs: Callable[[ObjectPairs], Json] = dict, *, max_depth: int = MAX_JSON_DEPTH
) -> Json:
    """Parse untrusted JSON. `pairs` makes the value of an object from its keys and values.

    Raises:
        ValueError: invalid JSON, NaN or a number out of range, or nesting deeper than `max_depth`.
    """
    try:
        value: Json = json.loads(
            text, object_pairs_hook=pairs, parse_constant=_number, parse_float=_number
        )
    # The C parser reaches the recursion limit of Python before any depth can be counted.
    except RecursionError:
        raise ValueError(f"it is nested more than {max_depth} levels deep") from None
    if _depth_exceeds(value, max_depth):
        raise ValueError(f"it is nested more than {max_depth} levels deep")
    return value


def _number(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number


def _depth_exceeds(value: Json, limit: int) -> bool:
    if limit and isinstance(value, Mapping):
        return any(_depth_exceeds(item, limit - 1) for item in value.values())
    if limit and isinstance(value, list):
        return any(_depth_exceeds(item, limit - 1) for item in value)
    return not limit


def as_mapping(raw: object) -> Mapping[str, object]:
    """Return `raw` if it is an object, else an empty one."""
    return raw if isinstance(raw, Mapping) else {}


def as_mappings(raw: object) -> list[Mapping[str, object]]:
    """Return the objects in a list; an empty list if `raw` is no list."""
    items = raw if isinstance(raw, list) else []
    return [item for item in items if isinstance(item, Mapping)]


def text_at(raw: object, *keys: str) -> str:
    """Return the string at this path of keys, or an empty string."""
    for key in keys:
        raw = as_mapping(raw).get(key)
    return raw if isinstance(raw, str) else ""


def canonical_json(value: Json) -> str:
    """Return the canonical text of a value: sorted keys, no spaces, non-ASCII unescaped.

    Raises:
        ValueError: a number that JSON does not have, such as NaN.
    """
    # The ids of events, entities and plans are digests of this text: it must never change.
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=dict,  # MappingProxyType is not a dict
    )


def json_digest(value: Json) -> str:
    """Return the SHA-256 of the canonical text as 64 hex digits."""
    return sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def deep_freeze(value: Json) -> Json:
    """Return an immutable copy: mapping proxies and tuples, at every level."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: deep_freeze(item) for key, item in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(deep_freeze(item) for item in value)
    return value
