"""A history as Parquet files, which DuckDB, pandas and Spark read: events, entities, links."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from contracts.json import Json, canonical
from policy.log.events import Event
from policy.log.merge import History
from policy.log.taint import data_flow

_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "events": {
        "id": "VARCHAR", "run_id": "VARCHAR", "kind": "VARCHAR", "replica": "VARCHAR",
        "counter": "BIGINT", "place": "BIGINT", "at": "TIMESTAMPTZ", "heads": "VARCHAR[]",
        "body": "VARCHAR",
    },
    "entities": {
        "id": "VARCHAR", "origin": "VARCHAR", "content": "VARCHAR", "caps": "VARCHAR[]",
        "taint": "VARCHAR[]", "flow_taint": "VARCHAR[]", "part_of": "VARCHAR",
    },
    "links": {"event": "VARCHAR", "role": "VARCHAR", "entity": "VARCHAR"},
}  # fmt: skip


def write_parquet(history: History, folder: Path) -> tuple[Path, ...]:
    """Write the three files into the folder, which is made; old ones of their names go.

    `body` and `content` are JSON text. `taint` is an entity's own, `flow_taint` that by the flow.
    """
    import duckdb  # it takes a tenth of a second to import

    folder.mkdir(parents=True, exist_ok=True)
    rows = {"events": _events(history), "entities": _entities(history), "links": _links(history)}
    written = []
    with tempfile.TemporaryDirectory(prefix="harness-parquet-") as place, duckdb.connect() as base:
        for name, columns in _COLUMNS.items():
            lines = Path(place) / f"{name}.jsonl"
            lines.write_text("".join(f"{canonical(row)}\n" for row in rows[name]))
            target = folder / f"{name}.parquet"
            base.read_json(
                str(lines), columns=dict(columns), format="newline_delimited"
            ).write_parquet(str(target))
            written.append(target)
    return tuple(written)


def _events(history: History) -> Iterator[dict[str, Json]]:
    for place, event in enumerate(history.in_order(), 1):
        yield {
            "id": event.id,
            "run_id": event.run_id,
            "kind": event.kind,
            "replica": event.replica,
            "counter": event.counter,
            "place": place,
            "at": event.as_json()["at"],
            "heads": event.heads,
            "body": canonical(event.body),
        }


def _entities(history: History) -> Iterator[dict[str, Json]]:
    flow = data_flow(history)
    for name, entity in sorted(history.entities.items()):
        yield {
            "id": name,
            "origin": entity.origin,
            "content": canonical(entity.content),
            "caps": sorted(entity.label.caps),
            "taint": sorted(entity.label.taint),
            "flow_taint": sorted(flow.label(name).taint),
            "part_of": entity.part_of,
        }


def _links(history: History) -> Iterator[dict[str, Json]]:
    for event in history.in_order():
        yield from _of(event, "consumes", event.consumes)
        yield from _of(event, "produces", event.produces)


def _of(event: Event, role: str, entities: Iterable[str]) -> Iterator[dict[str, Json]]:
    for entity in entities:
        yield {"event": event.id, "role": role, "entity": entity}
