"""A text that the model refuses, or an outage, costs no other playbook its vector."""

from collections.abc import Sequence

import pytest

from contracts.errors import ModelRefused, ModelUnavailable
from memory.playbooks import index as memory_index
from memory.playbooks.library import Library
from memory.types import Embedder, PlaybookChanges, PlaybookContent, PlaybookQuery
from memory.vectors import sync
from tests.support.memory import Open, WordEmbedder


class Picky(WordEmbedder):
    """An embedder that refuses every request with a text about bread, and records its requests."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.requests: list[Sequence[str]] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.requests.append(texts)
        if any("bread" in text for text in texts):
            raise self.error
        return super().__call__(texts)


def places(library: Library, title: str) -> set[str]:
    found = {hit.playbook.title: hit for hit in library.search(PlaybookQuery(text=title))}
    return set(found[title].arm_ranks)


def bad(library: Library) -> list[str]:
    return [finding.name for finding in library.doctor() if not finding.ok]


@pytest.mark.parametrize("error", [ModelRefused("too long"), ValueError("no bread")])
@pytest.mark.parametrize("first", [0, 4])
def test_a_refused_text_leaves_the_others_their_vectors_and_is_not_requested_again(
    opened: Open, words: WordEmbedder, error: Exception, first: int
) -> None:
    picky = Picky(error)
    titles = ["rotate keys", "mow lawns", "sew buttons", "paint doors"]
    titles.insert(first, "bake bread")
    with opened() as library:
        words.down = True
        made = {title: library.create(PlaybookContent(title=title)) for title in titles}
    with opened(embedder=picky.embedder) as library:
        library.reindex()
        assert places(library, "rotate keys") == {"words", "vectors"}
        before = len(picky.requests)
        for title in ("mow lawns", "sew buttons"):
            assert places(library, title) == {"words", "vectors"}
        assert picky.requests[before:] == [["mow lawns"], ["sew buttons"]]
        (told,) = [finding for finding in library.doctor() if not finding.ok]
        assert (told.name, "bake-bread" in told.advice) == ("embeddings", True)
        library.update(made["bake bread"].id, PlaybookChanges(title="bake cake"))
        assert places(library, "bake cake") == {"words", "vectors"}
        assert bad(library) == []


def test_a_long_text_is_cut_before_it_is_embedded(library: Library, words: WordEmbedder) -> None:
    library.create(PlaybookContent(title="rotate keys", use_case="now and then " * 7_000))
    assert places(library, "rotate keys")
    assert bad(library) == []
    assert max(map(len, words.texts)) <= 4_000


def test_vectors_are_stored_in_batches_and_searches_do_not_repeat_a_failed_request(
    opened: Open, words: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "TEXTS_PER_REQUEST", 2)
    owed = 0

    def at_its_limit(texts: Sequence[str]) -> list[list[float]]:
        nonlocal owed
        owed += len(texts) == 2
        if owed > 1:
            raise ModelUnavailable("429")
        return words(texts)

    with opened() as library:
        words.down = True
        for name in "abcdef":
            library.create(PlaybookContent(title=f"rotate {name}"))
        words.down = False
    with opened(embedder=Embedder(name="words", embed=at_its_limit)) as library:
        for _ in range(4):
            found = library.search(PlaybookQuery(text="rotate", max_distance=2.0))
            assert sum("vectors" in hit.arm_ranks for hit in found) == 2
        assert owed == 2
        assert bad(library) == ["waiting"]
        monkeypatch.setattr(memory_index, "monotonic", lambda: float("inf"))
        owed = -9
        assert places(library, "rotate f") == {"words", "vectors"}


def fails(texts: Sequence[str]) -> list[list[float]]:
    raise ConnectionError(f"nobody embeds {texts}")


@pytest.mark.parametrize(
    "own", [fails, lambda _: [], lambda texts: [[float("nan")] * 8 for _ in texts]]
)
def test_a_failing_embedding_function_costs_only_the_vectors(
    opened: Open, own: object, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(embedder=Embedder(name="words", embed=own)) as library:  # type: ignore[arg-type]  # as a stranger's may be
        library.create(PlaybookContent(title="rotate keys"))
        assert places(library, "rotate keys") == {"words"}
        library.reindex()
        assert bad(library) == ["waiting"]
        assert caplog.text.count("words only until the model answers: 'words' ") == 1
    with opened() as library:
        assert places(library, "rotate keys") == {"words", "vectors"}
