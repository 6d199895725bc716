"""`python -m memory.vectors.chroma_probe FOLDER`: exit 0 if every sampled record finds itself.

This runs as a process of its own, because a damaged folder can crash the process that opens it.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memory.types import PlaybookFilter
from memory.vectors import chroma

if TYPE_CHECKING:
    from chromadb import Collection

SAMPLE = 50
"""Records of each collection that are looked up by their own vector."""


def probe(folder: Path) -> bool:
    """Return whether every sampled record is the nearest to its own vector."""
    client = chroma.open_folder(folder)
    try:
        names = [collection.name for collection in client.list_collections()]
        return all(_finds_its_records(chroma.open_collection(client, name)) for name in names)
    finally:
        chroma.close(client)


def _finds_its_records(collection: "Collection") -> bool:
    sample = collection.get(limit=SAMPLE, include=["embeddings"])
    if sample["embeddings"] is None:
        return not sample["ids"]
    for embedding in sample["embeddings"]:
        vector = [float(number) for number in embedding]
        found = chroma.nearest(collection, vector, PlaybookFilter(), 1)
        if not found or found[0][1] >= 1e-3:
            return False
    return True


if __name__ == "__main__":
    sys.exit(0 if probe(Path(sys.argv[1])) else 1)
