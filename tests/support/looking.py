"""`python -m tests.support.looking HOME WHAT`: what who opens the library there sees."""

import sys
from pathlib import Path

import typer

from memory.playbooks.library import open_library
from memory.types import Embedder, PlaybookQuery
from tests.support.spread import spread


def main(home: Path, what: str) -> None:
    """Print how many have a vector by a `search`, or else what a doctor found that is not well."""
    embedder = Embedder(name="spread", embed=spread)
    with open_library(home / "harness.db", index=home / "index", embedder=embedder) as library:
        if what == "search":
            found = library.search(PlaybookQuery(text="item 7", max_distance=2.0, limit=200))
            typer.echo(sum("vectors" in hit.arm_ranks for hit in found))
        else:
            findings = library.doctor(repair=what == "repair")
            typer.echo(" ".join(finding.name for finding in findings if not finding.ok))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
