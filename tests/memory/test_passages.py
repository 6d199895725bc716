"""All texts of a playbook are searched: a long one by passages, of which the nearest counts."""

from dataclasses import replace

import pytest

from memory.content import MAX_PASSAGES, PASSAGE_LENGTH, passages
from memory.types import Embedder, PlaybookChanges, PlaybookContent, PlaybookQuery, PlaybookStep
from memory.vectors.calibrate import measure_limit
from tests.support.memory import Open, WordEmbedder

LONG = "\n".join(f"line {number} says nothing of interest" for number in range(200))
KEYS = PlaybookContent(title="Rotate keys", use_case="after a leak")
BY_MEANING = PlaybookQuery(text="", max_distance=1.0)


def test_a_short_playbook_is_one_text() -> None:
    step = PlaybookStep(action="call the vault", tool="curl", expected="200")
    assert passages(replace(KEYS, process="Tell all.", steps=(step,)), ["Wait a day."]) == [
        "Rotate keys — after a leak\nTell all.\ncall the vault curl 200\nWait a day."
    ]


def test_a_long_playbook_is_passages_that_start_with_its_title() -> None:
    head, *parts = passages(replace(KEYS, process=LONG), ["Wait a day."])
    assert head == "Rotate keys — after a leak"
    assert all(part.startswith("Rotate keys: ") for part in parts)
    assert max(map(len, parts)) <= PASSAGE_LENGTH + len("Rotate keys: ")
    texts = " ".join(part.removeprefix("Rotate keys: ") for part in parts)
    assert texts.split() == [*LONG.split(), "Wait", "a", "day."]


def test_a_huge_playbook_has_a_bounded_number_of_passages() -> None:
    assert len(passages(replace(KEYS, use_case=LONG, process=LONG * 20), [])) == MAX_PASSAGES


@pytest.fixture
def steps() -> PlaybookContent:
    """A long playbook whose last step is about something else than its title."""
    last = PlaybookStep(action="descale espresso machine " * 30)
    return PlaybookContent(title="Rotate keys", process=LONG, steps=(last,))


def test_a_step_of_a_long_playbook_is_found_by_meaning(
    opened: Open, steps: PlaybookContent
) -> None:
    with opened() as library:
        wanted = library.create(steps)
        for number in range(5):
            library.create(PlaybookContent(title=f"Bake bread {number}"))
        query = replace(BY_MEANING, text="descale espresso machine")
        hit = library.search(query)[0]
        assert hit.playbook.id == wanted.id
        assert hit.arm_ranks["vectors"].rank == 1


def test_a_removed_step_is_no_longer_found(opened: Open, steps: PlaybookContent) -> None:
    with opened() as library:
        slug = library.create(steps).slug
        query = replace(BY_MEANING, text="descale espresso machine", max_distance=0.9)
        assert library.search(query)
        library.update(slug, PlaybookChanges(steps=()))
        assert library.search(query) == []
        library.undo(slug)
        assert library.search(query)


def test_only_passages_that_changed_are_embedded_again(
    opened: Open, words: WordEmbedder, steps: PlaybookContent
) -> None:
    with opened() as library:
        slug = library.create(steps).slug
        library.search(BY_MEANING)
        library.search(replace(BY_MEANING, text="one"))
        before = len(words.texts)
        library.update(slug, PlaybookChanges(steps=(PlaybookStep(action="grind beans"),)))
        library.search(replace(BY_MEANING, text="two"))
        old, new = (
            passages(replace(steps, steps=(PlaybookStep(action=action),)), [])
            for action in (steps.steps[0].action, "grind beans")
        )
        embedded = [text for text in words.texts[before:] if text.startswith("Rotate keys")]
        assert embedded == [text for text in new if text not in old]
        assert 0 < len(embedded) < len(new) / 2


def test_a_lesson_is_found_by_its_words(opened: Open) -> None:
    with opened(embedder=None) as library:
        slug = library.create(PlaybookContent(title="Rotate keys")).slug
        assert library.search(PlaybookQuery(text="unseal")) == []
        library.add_lessons(slug, ["Unseal the vault first."])
        (hit,) = library.search(PlaybookQuery(text="unseal"))
        assert hit.playbook.slug == slug


def test_the_distance_limit_is_measured_once_for_each_model(
    opened: Open, words: WordEmbedder
) -> None:
    measured = Embedder(name="unmeasured", embed=words, max_distance=None)
    limit = measure_limit(measured)
    assert 0 < limit <= 1
    for text in ("rotate", "turn"):
        with opened(embedder=measured) as library:
            library.create(PlaybookContent(title="rotate keys"))
            found = library.search(PlaybookQuery(text=text))
            assert all(hit.arm_ranks["vectors"].score <= limit for hit in found)
    assert sum(text.startswith("Plot the number") for text in words.texts) == 2
