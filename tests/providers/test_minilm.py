"""The local embedding model: its vectors are close to those of the published weights."""

import math

import pytest

from providers import minilm

pytestmark = pytest.mark.skipif(
    not minilm.is_installed(),
    reason="no package index was there to download the model from: set-up said so",
)


def distance(a: list[float], b: list[float]) -> float:
    return 1 - sum(x * y for x, y in zip(a, b, strict=True))


def test_vectors_have_length_one_and_384_dimensions() -> None:
    (vector,) = minilm.embed(["a text"])
    assert len(vector) == minilm.DIMENSIONS
    assert math.sqrt(sum(x * x for x in vector)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("one", "other", "cosine"),
    [
        ("set up my weekly standup reminder", "Create recurring calendar triggers", 0.494),
        ("this spec is sometimes red and sometimes green", "Fix a flaky test", 0.181),
        ("Ça coûte 3 €, naïve café!", "the price of a coffee in Paris", 0.437),
    ],
)
def test_similarities_are_those_of_the_published_model(one: str, other: str, cosine: float) -> None:
    assert 1 - distance(*minilm.embed([one, other])) == pytest.approx(cosine, abs=0.01)


def test_a_text_has_the_same_vector_alone_and_in_a_batch() -> None:
    texts = ["short", "a much longer text about something else", ""]
    alone = [minilm.embed([text])[0] for text in texts]
    for one, other in zip(alone, minilm.embed(texts), strict=True):
        assert distance(one, other) == pytest.approx(0, abs=1e-5)


def test_similar_texts_without_a_common_word_are_close() -> None:
    query, wanted, other = minilm.embed(
        ["set up my weekly standup reminder", "Create recurring calendar triggers", "Bake bread"]
    )
    assert distance(query, wanted) < 0.7 < distance(query, other)


def test_long_and_unusual_texts_have_vectors() -> None:
    assert len(minilm.embed(["word " * 100_000, "👩‍🚀\0", "\n"])) == 3


def test_no_texts_have_no_vectors() -> None:
    assert minilm.embed([]) == []
