"""JSON as a value: its type, one spelling of it, and its digest."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import TypeAlias

Json: TypeAlias = str | int | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None


def canonical(value: Json) -> str:
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


def digest(value: Json) -> str:
    """64 hex digits that name this value and no other."""
    return sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def frozen(value: Json) -> Json:
    """The same value, which nobody can change any more."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: frozen(item) for key, item in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(frozen(item) for item in value)
    return value
