"""A denial as JSON, and back: for events, approvals and people."""

from collections.abc import Mapping, Sequence

from contracts.json import Json
from contracts.tool import Denied


def denial_to_json(denied: Denied) -> dict[str, Json]:
    """The denial with all that it says of others."""
    return {
        "reason": denied.reason,
        "rule": denied.rule,
        "argument": denied.argument,
        "tags": sorted(denied.tags),
        "provenance": list(denied.provenance),
        **({"also": [denial_to_json(one) for one in denied.others]} if denied.others else {}),
    }


def denial_from_json(body: Mapping[str, Json]) -> Denied:
    """The denial that `denial_json` gave this of."""
    return Denied(
        reason=str(body["reason"]),
        rule=str(body["rule"]),
        argument=str(body["argument"]),
        tags=frozenset(map(str, _each(body["tags"]))),
        provenance=tuple(map(str, _each(body["provenance"]))),
        others=tuple(
            denial_from_json(one) for one in _each(body.get("also")) if isinstance(one, Mapping)
        ),
    )


def _each(value: Json) -> Sequence[Json]:
    return value if isinstance(value, (list, tuple)) else ()
