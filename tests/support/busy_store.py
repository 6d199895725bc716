"""A process that works on a store until it has done what it was asked, or is killed."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

from memory.errors import StaleUpdate
from memory.playbooks.library import open_library
from memory.types import Execution, PlaybookChanges, PlaybookContent, PlaybookQuery
from tests.support.memory import WordEmbedder


def work(
    database: str,
    index: Path,
    worker: int,
    rounds: int,
    shared: str,
    tell: Callable[[str], object],
) -> None:
    """Mixed operations; each line told is one that has been kept."""
    lot = random.Random(worker)  # noqa: S311 - a lot, no secret
    where = database if "://" in database else Path(database)
    with open_library(where, index=index, embedder=WordEmbedder().embedder) as library:
        for number in range(rounds):
            name = f"job{worker}x{number}"
            match lot.choice(("create", "record", "record", "search", "update")):
                case "create":
                    made = library.create(PlaybookContent(title=f"{name} alpha"))
                    told = f"created {made.id} {name}"
                case "record":
                    library.record_execution(
                        Execution(playbook_id=shared, run_id=name, outcome="success")
                    )
                    told = "recorded"
                case "search":
                    library.search(PlaybookQuery(text="alpha", limit=3))
                    told = "searched"
                case _:
                    try:
                        library.update(shared, PlaybookChanges(notes=name))
                        told = "updated"
                    except StaleUpdate:
                        told = "refused"
            tell(told)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    numbers = (int(sys.argv[3]), int(sys.argv[4]))
    work(sys.argv[1], Path(sys.argv[2]), *numbers, sys.argv[5], _print)
