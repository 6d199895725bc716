"""Embeddings of texts: checked vectors, or the reason why there are none."""

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite

from contracts.errors import HarnessError, ModelRefused
from memory.types import Embedder, Vector

EMBEDDED_CHARACTERS = 4_000
"""Characters of a text that are embedded. Providers refuse longer texts."""

PROBE_TEXT = "a playbook"
"""A text that no working model refuses."""


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return one vector of finite numbers per text, in order.

    Raises:
        ModelRefused: the model failed on one of these texts, and may accept others.
        ModelUnavailable: it does not answer.
    """
    try:
        made = embedder.embed([text[:EMBEDDED_CHARACTERS] for text in texts])
        vectors = [[float(number) for number in vector] for vector in made]
    except HarnessError:
        raise
    except Exception as error:  # a library user's own function may raise anything
        raise ModelRefused(f"{embedder.name!r} failed: {type(error).__name__}: {error}") from error
    if len(vectors) != len(texts):
        raise ModelRefused(f"{embedder.name!r} gave {len(vectors)} vectors for {len(texts)} texts")
    if not all(vector and all(map(isfinite, vector)) for vector in vectors):
        raise ModelRefused(f"{embedder.name!r} gave an empty vector or one that is not finite")
    return [*vectors]


def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Return one vector per text, in order; an empty one for each text that the model refuses.

    Raises:
        ModelUnavailable: the model does not answer, or refuses every text.
    """
    try:
        return embed_texts(embedder, texts)
    except ModelRefused:
        embed_texts(embedder, [PROBE_TEXT])
    vectors: list[Vector] = []
    for text in texts:
        try:
            vectors += embed_texts(embedder, [text])
        except ModelRefused:
            vectors.append(())
    return vectors


@lru_cache(maxsize=64)
def embed_query(embedder: Embedder, text: str) -> Vector:
    """Return the vector of a query. A run asks the library and the notebook the same question.

    Raises:
        ModelUnavailable: the model does not answer; the next call tries again.
    """
    return embed_texts(embedder, [text])[0]
