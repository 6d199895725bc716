"""What is found, in which order, and why; on both databases."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import ModelUnavailable
from memory.playbooks.library import Library, open_library
from memory.types import (
    Embedder,
    Execution,
    GroupThresholds,
    PlaybookChanges,
    PlaybookContent,
    PlaybookFilter,
    PlaybookQuery,
)
from providers import minilm
from tests.support.memory import Open, WordEmbedder
from tests.support.stores import new_store


def fill(library: Library, *titles: str, category: str = "") -> list[str]:
    return [library.create(PlaybookContent(title=title, category=category)).id for title in titles]


def ids(library: Library, text: str, **options: object) -> list[str]:
    query = replace(PlaybookQuery(text=text), **options)  # type: ignore[arg-type]  # a test's shortcut
    return [hit.playbook.id for hit in library.search(query)]


def test_both_arms_explain_a_hit(library: Library) -> None:
    fill(library, "rotate certificates", "bake bread")
    (hit,) = library.search(PlaybookQuery(text="rotate certificates", max_distance=0.3))
    assert 0.6 < hit.score <= 1.0
    assert hit.arm_ranks["words"].rank == hit.arm_ranks["vectors"].rank == 1
    assert hit.arm_ranks["words"].score > 0
    assert hit.arm_ranks["vectors"].score == pytest.approx(0, abs=1e-3)


def test_filters_hold_in_both_arms(library: Library) -> None:
    fill(library, "rotate certificates", category="security")
    assert ids(library, "rotate certificates", filter=PlaybookFilter(category="baking")) == []
    assert ids(library, "rotate certificates", filter=PlaybookFilter(tags=("none",))) == []
    assert len(ids(library, "rotate certificates", filter=PlaybookFilter(category="security"))) == 1


def test_limits_of_zero_and_one_are_respected(library: Library) -> None:
    fill(library, "rotate certificates", "rotate keys")
    assert ids(library, "rotate", limit=0) == []
    assert len(ids(library, "rotate", limit=1)) == 1


def test_results_below_min_score_are_omitted(library: Library) -> None:
    fill(library, "rotate certificates", "rotate keys")
    best = ids(library, "rotate certificates", min_score=0.65, max_distance=2.0)
    assert len(best) == 1


def test_playbooks_beyond_max_distance_are_found_by_words_only(library: Library) -> None:
    fill(library, "rotate certificates")
    (hit,) = library.search(PlaybookQuery(text="certificates at dawn in june", max_distance=0.0))
    assert set(hit.arm_ranks) == {"words"}


def test_a_playbook_at_exactly_max_distance_is_found(on_sqlite: Library) -> None:
    fill(on_sqlite, "rotate certificates")
    far = PlaybookQuery(text="certificates at dawn", max_distance=2.0)
    distance = on_sqlite.search(far)[0].arm_ranks["vectors"].score
    (hit,) = on_sqlite.search(replace(far, max_distance=distance))
    assert hit.arm_ranks["vectors"].score == distance > 0.1


def test_a_search_of_an_empty_store_embeds_nothing(library: Library, words: WordEmbedder) -> None:
    assert ids(library, "rotate certificates") == []
    assert words.texts == []
    fill(library, "rotate certificates")
    assert len(ids(library, "rotate certificates")) == 1
    assert "rotate certificates" in words.texts


def test_a_word_in_all_playbooks_is_not_looked_up(on_sqlite: Library) -> None:
    fill(on_sqlite, *(f"rotate {number}" for number in range(70)))
    by_words = [
        h for h in on_sqlite.search(PlaybookQuery(text="rotate 7")) if "words" in h.arm_ranks
    ]
    assert [hit.playbook.title for hit in by_words] == ["rotate 7"]
    assert "words" in on_sqlite.search(PlaybookQuery(text="rotate"))[0].arm_ranks


def test_without_a_limit_that_of_the_embedder_holds(tmp_path: Path, words: WordEmbedder) -> None:
    store, index = new_store(tmp_path / "harness.db"), tmp_path / "index"
    found = {}
    for limit in (0.2, 1.0):
        model = Embedder(name="words", embed=words, max_distance=limit)
        with open_library(store, index=index, embedder=model) as library:
            if not library.list():
                library.create(PlaybookContent(title="rotate certificates at dawn"))
            asked = PlaybookQuery(text="certificates for bread")
            (hit,) = library.search(asked)
            (wide,) = library.search(replace(asked, max_distance=2.0))
            found[limit] = ("vectors" in hit.arm_ranks, "vectors" in wide.arm_ranks)
    assert found == {0.2: (False, True), 1.0: (True, True)}


def test_a_repeated_query_is_embedded_once(on_sqlite: Library, words: WordEmbedder) -> None:
    fill(on_sqlite, "bake bread")
    assert [len(ids(on_sqlite, "rotate keys")) for _ in "123"] == [0, 0, 0]
    assert words.texts.count("rotate keys") == 1


def test_a_playbook_deleted_or_archived_during_a_search_is_not_found(
    opened: Open, words: WordEmbedder
) -> None:
    with opened() as other:
        kept, deleted, archived = fill(other, "rotate keys", "rotate seals", "rotate locks")
        ids(other, "rotate")

        def embed(texts: Sequence[str]) -> list[list[float]]:
            other.delete(deleted)  # after the words were read
            other.update(archived, PlaybookChanges(status="archived"))
            return words(texts)

        for weight in (0.0, 0.3):
            with opened(embedder=Embedder(name="words", embed=embed)) as library:
                assert ids(library, f"rotate at {weight}", confidence_weight=weight) == [kept]
            (deleted,) = fill(other, "rotate seals")
            other.update(archived, PlaybookChanges(status="active"))


def test_an_empty_text_finds_nothing(library: Library) -> None:
    fill(library, "rotate certificates")
    assert ids(library, "") == ids(library, " \n") == ids(library, "\0") == []


def test_a_change_of_the_text_is_found_at_once_and_the_old_one_no_more(library: Library) -> None:
    (made,) = fill(library, "rotate certificates")
    assert ids(library, "rotate certificates") == [made]
    library.update(made, PlaybookChanges(title="bake bread"))
    assert ids(library, "bake bread", max_distance=0.2) == [made]
    assert ids(library, "rotate certificates", max_distance=0.2) == []


def test_vectors_are_made_again_only_when_their_text_changes(
    library: Library, words: WordEmbedder
) -> None:
    (made,) = fill(library, "rotate certificates")
    library.doctor()  # embeds its title, also as a query
    before = len(words.texts)
    library.update(made, PlaybookChanges(notes="n", tags=("t",), status="draft"))
    library.doctor(repair=True)
    assert words.texts[before:] == []


def test_results_are_grouped_by_their_record(library: Library) -> None:
    good, bad, new, some = fill(library, *(f"rotate {n}" for n in ("good", "bad", "new", "some")))
    for number in range(5):
        library.record_execution(Execution(playbook_id=good, outcome="success"))
        library.record_execution(Execution(playbook_id=bad, run_id=str(number), outcome="failure"))
    for outcome in ("success", "failure"):
        library.record_execution(Execution(playbook_id=some, outcome=outcome))
    found = library.search_with_context(PlaybookQuery(text="rotate", max_distance=2.0))
    groups = {group: [hit.playbook.id for hit in hits] for group, hits in found.groups.items()}
    assert groups == {"proven": [good], "promising": [some], "untested": [new], "failing": [bad]}
    strict = GroupThresholds(proven_min=0.9)
    assert library.search_with_context(PlaybookQuery(text="rotate"), strict).proven == ()


@pytest.mark.parametrize("index", ["folder", "none"])
def test_a_playbook_with_lessons_is_found_for_a_run_behind_many_nearer_ones(
    opened: Open, tmp_path: Path, index: str
) -> None:
    with opened(index=tmp_path / "index" if index == "folder" else None) as library:
        fill(library, *(f"rotate certificates {number}" for number in range(60)))
        learned, old = fill(library, "rotate a leaked key", "rotate a lost key")
        for one in (learned, old):
            library.add_lessons(one, ["Revoke it first"], run_id=f"run of {one}")
        library.update(old, PlaybookChanges(status="archived"))
        query = PlaybookQuery(text="rotate certificates", limit=2, max_distance=2.0)
        assert learned not in ids(library, query.text, limit=20, max_distance=2.0)
        found = [hit.playbook.id for hit in library.search_with_context(query).untested]
        assert found[1:] == [learned]
        assert ids(library, query.text, filter=PlaybookFilter(taught=True)) == [learned]


def test_an_untested_playbook_is_not_ranked_behind_a_tested_one_for_a_run(library: Library) -> None:
    old, new = fill(library, "rotate certificates by hand", "rotate certificates")
    library.record_execution(Execution(playbook_id=old, outcome="success"))
    query = PlaybookQuery(text="rotate certificates", confidence_weight=0.9, limit=1)
    assert [hit.playbook.id for hit in library.search(query)] == [old]
    found = library.search(replace(query, optimistic=True))
    assert [hit.playbook.id for hit in found] == [new]


def test_an_unavailable_model_causes_one_warning_and_words_are_searched(
    library: Library, words: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    words.down = True
    with caplog.at_level(logging.WARNING):
        (made,) = fill(library, "rotate certificates")
        assert ids(library, "rotate certificates") == ids(library, "certificates") == [made]
    assert len([r for r in caplog.records if "words only" in r.message]) == 1


def test_missing_vectors_are_made_once_the_model_answers_again(
    library: Library, words: WordEmbedder
) -> None:
    words.down = True
    (made,) = fill(library, "rotate certificates")
    words.down = False
    (hit,) = library.search(PlaybookQuery(text="rotate certificates"))
    assert (hit.playbook.id, set(hit.arm_ranks)) == (made, {"words", "vectors"})


def test_without_an_embedder_words_are_searched(opened: Open) -> None:
    with opened(embedder=None) as library:
        (made,) = fill(library, "rotate certificates")
        assert ids(library, "certificate rotation") == [made]
        library.reindex()
        assert all(finding.ok for finding in library.doctor())


@pytest.mark.parametrize("other", [WordEmbedder(name="other"), WordEmbedder(length=32)])
def test_another_model_or_vector_length_causes_a_warning_and_reindex_repairs_it(
    opened: Open, other: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as library:
        (made,) = fill(library, "rotate certificates")
        library.add_lessons(made, ["one", "two"])
        ids(library, "rotate")
    with opened(embedder=other.embedder) as library:
        (new,) = fill(library, "rotate keys")
        assert set(ids(library, "rotate")) == {made, new}
        assert caplog.text.count("until `harness memory reindex`") == 1
        assert not {f.name: f.ok for f in library.doctor()}["embeddings"]
        told: list[tuple[int, int]] = []
        library.reindex(lambda done, of: told.append((done, of)))
        assert told[-1] == (5, 5)  # three changes of texts are queued, two playbooks are written
        assert [finding for finding in library.doctor() if not finding.ok] == []
        hit = library.search(PlaybookQuery(text="rotate certificates"))[0]
        assert (hit.playbook.id, set(hit.arm_ranks)) == (made, {"words", "vectors"})


def test_doctor_looks_for_each_playbook_by_the_very_text_that_was_embedded(
    on_sqlite: Library, words: WordEmbedder
) -> None:
    fill(on_sqlite, "rotate keys")
    assert all(finding.ok for finding in on_sqlite.doctor())
    assert set(words.texts) == {"rotate keys"}


def test_reindex_leaves_no_stale_entries(library: Library) -> None:
    first, second = fill(library, "rotate certificates", "bake bread")
    ids(library, "rotate")
    library.delete(first)
    library.reindex()
    assert library.index.keys() == {library.get(second).key}


def test_reindex_embeds_one_text_if_all_vectors_are_stored(
    library: Library, words: WordEmbedder
) -> None:
    fill(library, "rotate certificates", "bake bread")
    ids(library, "rotate")
    before = len(words.texts)
    library.reindex()
    assert words.texts[before:] == ["rotate certificates"]  # tells how long its vectors are now


@pytest.mark.skipif(
    not minilm.is_installed(),
    reason="no package index was there to make the model from: set-up said so",
)
def test_the_local_model_finds_a_playbook_that_shares_no_word(tmp_path: Path) -> None:
    local = Embedder(name=minilm.NAME, embed=minilm.embed)
    with open_library(tmp_path / "h.db", index=tmp_path / "index", embedder=local) as library:
        wanted = library.create(
            PlaybookContent(
                title="Create recurring calendar triggers",
                use_case="When something has to happen again and again on a schedule",
            )
        )
        fill(library, "Deploy a Go service", "Bake bread", "Renew a certificate")
        found = library.search(PlaybookQuery(text="set up my weekly standup reminder"))
    assert found[0].playbook.id == wanted.id


def test_a_missing_local_model_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(minilm, "model_folder", lambda: tmp_path)
    minilm._model.cache_clear()
    with pytest.raises(ModelUnavailable, match="make setup"):
        minilm.embed(["x"])
    minilm._model.cache_clear()


def test_a_search_without_an_index_folder_finds_the_same(opened: Open) -> None:
    query = PlaybookQuery(text="rotate the keys", max_distance=2.0)
    with opened() as library:
        fill(library, "rotate keys", "rotate the signing keys", "bake bread")
        library.create(PlaybookContent(title="rotate old keys", status="archived"))
        expected = library.search(query)
    with opened(index=None) as library:
        found = library.search(query)
        assert [hit.playbook for hit in found] == [hit.playbook for hit in expected]
        assert [hit.score for hit in found] == pytest.approx(
            [hit.score for hit in expected], abs=1e-5
        )


def test_a_playbook_embedded_without_an_index_folder_reaches_the_index_later(opened: Open) -> None:
    query = PlaybookQuery(text="rotate the keys")
    with opened() as library:
        fill(library, "bake bread")
        library.search(query)
    with opened(index=None) as library:
        fill(library, "rotate the keys")
        (hit,) = library.search(query)
        assert hit.arm_ranks["vectors"].rank == 1
    with opened() as library:
        (hit,) = library.search(query)
        assert hit.arm_ranks["vectors"].rank == 1
