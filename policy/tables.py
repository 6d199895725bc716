"""The SQL tables of plans, entities, events and approvals.

Events, entities and what hangs on them are only ever added: triggers refuse the rest, hashes show
what got past the triggers. Moments are ISO text in UTC, which sorts by time.
"""

from sqlalchemy import (
    JSON,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

prompts = Table(
    "prompts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("at", String(32), nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("prompt", String(64), nullable=False, index=True),
    Column("steps", JSON, nullable=False),
    Column("at", String(32), nullable=False),
)

entities = Table(
    "entities",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("origin", Text, nullable=False),
    Column("line", Text, nullable=False),
)
"""`line` is the canonical JSON of the entity; the id is its SHA-256."""

entity_edges = Table(
    "entity_edges",
    metadata,
    Column("source", String(64), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("target", String(64), primary_key=True),
    Index("entity_edges_back", "target", "kind", "source"),
)
"""`part_of` and `relates_to`; what was made from what is told by the events."""

events = Table(
    "events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(64), nullable=False, unique=True),
    Column("run_id", String(64), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("replica", String(64), nullable=False),
    Column("counter", Integer, nullable=False),
    Column("line", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""`line` is the canonical JSON of the event; the id is its SHA-256. `number` is the order in
which this database got them: causes before effects."""

merged_events = Table(
    "merged_events",
    metadata,
    Column("id", String(64), primary_key=True),
)
"""The events that came from another log. What they say is read; no plan is run by it."""

event_entities = Table(
    "event_entities",
    metadata,
    Column("event", String(64), primary_key=True),
    Column("role", String(8), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("entity", String(64), nullable=False),
    Index("event_entities_by_entity", "entity", "role", "event"),
)
"""What each event `consumes` and `produces`, in its own order."""

event_heads = Table(
    "event_heads",
    metadata,
    Column("id", String(64), primary_key=True),
)
"""Events that no other event follows yet; the next one names them all."""

approvals = Table(
    "approvals",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("action", String(64), nullable=False, index=True),
    Column("run_id", String(64), nullable=False, index=True),
    Column("step", Integer, nullable=False),
    Column("op", String(255), nullable=False),
    Column("arguments", JSON, nullable=False),
    Column("denied", JSON, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("asked_at", String(32), nullable=False),
    Column("expires_at", String(32), nullable=False),
    Column("decided_at", String(32)),
    Column("decided_by", String(255)),
    Column("reason", Text, nullable=False),
    Column("node", String(255), nullable=False, server_default=""),
    Column("agent", String(64), nullable=False, server_default=""),
    Column("used_at", String(32)),
)

APPEND_ONLY = ("events", "event_entities", "entities", "entity_edges", "prompts", "plans")
"""Tables whose rows are never changed and never removed."""
