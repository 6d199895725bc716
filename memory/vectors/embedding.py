"""What an embedder makes of texts: whole vectors, or the reason why there are none."""

from collections.abc import Sequence
from math import isfinite

from contracts.errors import HarnessError, ModelRefused
from memory.types import Embedder, Vector

EMBEDDED_CHARACTERS = 4_000
"""Characters of a text that are embedded: providers refuse what is too long."""

PROBE_TEXT = "a playbook"
"""A text that every model takes which takes any."""


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """One vector a text, in the same order, of finite numbers.

    Raises:
        ModelRefused: it fails at one of these texts, and may well take others.
        ModelUnavailable: it does not answer.
    """
    try:
        made = embedder.embed([text[:EMBEDDED_CHARACTERS] for text in texts])
        vectors = [[float(number) for number in vector] for vector in made]
    except HarnessError:
        raise
    except Exception as error:  # a door: behind it is a function of whoever uses the library
        said = f"{type(error).__name__}: {error}"
        raise ModelRefused(f"{embedder.name!r} failed: {said}") from error
    if len(vectors) != len(texts):
        raise ModelRefused(f"{embedder.name!r} gave {len(vectors)} vectors for {len(texts)} texts")
    if not all(vector and all(map(isfinite, vector)) for vector in vectors):
        raise ModelRefused(f"{embedder.name!r} gave a vector of no numbers, or of one that is none")
    return [*vectors]


def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """The same, with an empty vector for each text that the model refuses.

    Raises:
        ModelUnavailable: it does not answer, or takes no text at all.
    """
    try:
        return embed_texts(embedder, texts)
    except ModelRefused:
        embed_texts(embedder, [PROBE_TEXT])
    return _parted(embedder, texts)


def _parted(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Of texts that were refused together, each half by itself."""
    if len(texts) == 1:
        return [()]
    vectors: list[Vector] = []
    for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
        try:
            vectors += embed_texts(embedder, half)
        except ModelRefused:
            vectors += _parted(embedder, half)
    return vectors
