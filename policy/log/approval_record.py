"""How approvals stand in the event log: every change of an approval is an event with its state.

The table of approvals is for queries. What a person decided about is what these events say.
"""

import json
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, Row, select

from contracts.json import Json, canonical_json, json_digest
from policy.database import approvals, events, merged_events
from policy.log.events import line_digest

SHOWN_IN_FULL = 20_000
"""Characters of arguments or denial in an event; longer ones stand there as their SHA-256."""

_FIELDS = ("step", "op", "node", "agent", "action", "status", "reason")
_MOMENTS = ("asked_at", "expires_at", "decided_at", "used_at")

Approval = Row[tuple[object, ...]]
"""A row of the table of approvals."""


def approval_body(row: Approval) -> dict[str, Json]:
    """Return the body of the event for the present state of an approval.

    The first one holds what the person is shown; the others hold its digest.
    """
    shown: dict[str, Json] = {"arguments": row.arguments, "denied": row.denied}
    body: dict[str, Json] = {
        "approval": row.id,
        **{name: getattr(row, name) for name in (*_FIELDS, *_MOMENTS)},
        "by": row.decided_by or "",
        "shown": json_digest(shown),
    }
    if row.status == "pending":
        body |= {name: _in_full_or_digest(value) for name, value in shown.items()}
    return body


def differing_fields(row: Approval, run_id: str, body: Mapping[str, Json]) -> list[str]:
    """Return the fields of an approval that its newest event does not confirm."""
    now = approval_body(row)
    # An event of an older version states fewer fields.
    compared = [name for name in now if name in body and name not in ("arguments", "denied")]
    words = {"shown": "arguments or denial", "by": "decided_by"}
    differing = [words.get(name, name) for name in compared if now[name] != body[name]]
    return [*differing, *(["run_id"] if row.run_id != run_id else [])]


def newest_body(connection: Connection, row: Approval) -> tuple[str, Mapping[str, Json]] | None:
    """Return run id and body of the newest event of an approval; None if there is none."""
    query = select(events.c.id, events.c.run_id, events.c.line).where(
        events.c.kind == "approval", events.c.run_id == row.run_id
    )
    for event in connection.execute(query.order_by(events.c.number.desc())):
        body = _body(event.line)
        if body.get("approval") == row.id:
            return (event.run_id, body) if line_digest(event.line) == event.id else None
    return None


def approval_problems(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the id of each approval that differs from the event log, and how."""
    own = events.c.id.not_in(select(merged_events.c.id))
    query = select(events.c.run_id, events.c.line).where(events.c.kind == "approval", own)
    newest: dict[object, tuple[str, Mapping[str, Json]]] = {}
    for event in connection.execute(query.order_by(events.c.number)):
        body = _body(event.line)
        newest[body.get("approval")] = (event.run_id, body)
    try:
        rows = connection.execute(select(approvals)).all()
    except ValueError:
        yield "approvals", "a row holds arguments or a denial that is not JSON: it was edited"
        return
    for row in rows:
        recorded = newest.pop(row.id, None)
        differing = differing_fields(row, *recorded) if recorded else []
        if recorded is None:
            yield row.id, "no event asks for this approval: it was added or edited"
        elif differing:
            yield row.id, f"the approval was edited: {', '.join(differing)}"
    for name in newest:
        yield str(name), "the approval of this event is missing: it was removed or edited"


def _body(line: str) -> Mapping[str, Json]:
    try:
        body = json.loads(line)["body"]
    except (ValueError, LookupError, TypeError):  # reported with the event itself
        return {}
    return body if isinstance(body, dict) else {}


def _in_full_or_digest(value: Json) -> Json:
    size = len(canonical_json(value))
    return value if size <= SHOWN_IN_FULL else {"sha256": json_digest(value), "characters": size}
