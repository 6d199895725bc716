"""`python -m memory.vectors.chroma_probe FOLDER`: exit 0 if Chroma finds its own records.

A process of its own, because opening a damaged folder can end the process without a word.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memory.types import PlaybookFilter
from memory.vectors import chroma

if TYPE_CHECKING:
    from chromadb import Collection
    from chromadb.api import ClientAPI

SAMPLE = 50
"""Records of each collection that must find themselves."""


def probe(folder: Path) -> bool:
    """True when every sampled record is the nearest to its own vector."""
    client = chroma.open_folder(folder)
    try:
        return all(_finds_itself(client, c.name) for c in client.list_collections())
    finally:
        chroma.close(client)


def _finds_itself(client: "ClientAPI", name: str) -> bool:
    records = chroma.open_collection(client, name)
    sample = records.get(limit=SAMPLE, include=["embeddings"])
    embeddings = sample["embeddings"]
    if embeddings is None:
        return not sample["ids"]
    return all(_is_found(records, [float(x) for x in vector]) for vector in embeddings)


def _is_found(records: "Collection", vector: list[float]) -> bool:
    found = chroma.nearest(records, vector, PlaybookFilter(), 1)
    return bool(found) and found[0][1] < 1e-3


if __name__ == "__main__":
    sys.exit(0 if probe(Path(sys.argv[1])) else 1)
