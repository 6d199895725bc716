"""`python -m benchmarks.memory.mem0_peer FOLDER`: mem0 adds and searches; prints its times as JSON.

The same Chroma library and the same embedding function as ours; no language model is asked. A
process of its own, because mem0 reads its settings when it is imported.
"""

import json
import os
import sys
from pathlib import Path

from benchmarks.memory import corpus
from benchmarks.memory.peers import Stopwatch, Taken, measured


class _Embedding:
    """What mem0 calls for vectors: our own."""

    def __init__(self, model: Stopwatch) -> None:
        self._model = model

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        return self._model.embed([text])[0]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        del memory_action
        return self._model.embed(texts)


def main(folder: Path) -> None:
    """Measure, and tell."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory  # type: ignore[import-untyped]  # has none

    unused = {"provider": "openai", "config": {"api_key": "never asked"}}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "chroma",
                "config": {"collection_name": "bench", "path": str(folder / "chroma")},
            },
            "history_db_path": str(folder / "history.db"),
            "embedder": unused,
            "llm": unused,
        }
    )
    watch = Stopwatch()
    memory.embedding_model = _Embedding(watch)

    def add(text: str) -> None:
        memory.add(text, user_id="bench", infer=False)

    def search(text: str) -> int:
        found = memory.search(text, filters={"user_id": "bench"}, top_k=5, threshold=0.0)
        return len(found["results"])

    taken: Taken = measured(add, search, watch, [corpus.text(c) for c in corpus.contents(2_000)])
    print(json.dumps(taken._asdict()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
