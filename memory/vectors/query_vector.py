"""The vector of what is asked: made once a process, since a run asks the same of each shelf."""

from functools import lru_cache

from memory.types import Embedder, Vector
from memory.vectors.embedding import vectors_of

KEPT = 64


@lru_cache(maxsize=KEPT)
def query_vector(embedder: Embedder, text: str) -> Vector:
    """What the embedder makes of this text.

    Raises:
        ModelUnavailable: it does not answer; the next call asks again.
    """
    return vectors_of(embedder, [text])[0]
