"""The vector of what is asked: made once a process, since a run asks the same of each shelf."""

from functools import lru_cache

from memory.types import Embedder, Vector
from memory.vectors.embedding import embed_texts

CACHED_QUERIES = 64


@lru_cache(maxsize=CACHED_QUERIES)
def embed_query(embedder: Embedder, text: str) -> Vector:
    """What the embedder makes of this text.

    Raises:
        ModelUnavailable: it does not answer; the next call asks again.
    """
    return embed_texts(embedder, [text])[0]
