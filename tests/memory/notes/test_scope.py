"""The eight levels of scopes, and that no viewer is given another one's entries."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.agents import AGENTS
from memory.errors import EntryInvalid
from memory.notes.agent_settings import InjectionOptions
from memory.notes.notebook import Notebook, open_notebook
from memory.notes.types import ExampleContent, NoteContent
from memory.scope import Scope, scope_key, scope_label, scope_level, validate_scope, visible_scopes
from tests.support.memory import EIGHT, WordEmbedder

ids = st.sampled_from([None, "", "a", "b", "A", "a'--", 'a","b', "null", "%", "é", "é", "ann|b"])
agents = st.sampled_from([None, *AGENTS])
scopes = st.builds(Scope, agent=agents, user=ids, company=ids).map(validate_scope)
every_way = st.builds(
    InjectionOptions,
    max_notes=st.just(20),
    max_examples=st.just(10),
    budget_tokens=st.just(100_000),
    note_strategy=st.sampled_from(["Relevant", "Recent", "All"]),
    example_strategy=st.sampled_from(["Semantic", "Recent", "Rated"]),
)


def may_see(viewer: Scope, scope: Scope) -> bool:
    """The rule in its plainest words: each id that is named is the viewer's own."""
    pairs = [
        (scope.agent, viewer.agent),
        (scope.user, viewer.user),
        (scope.company, viewer.company),
    ]
    return all(named is None or named == own for named, own in pairs)


@given(scopes, scopes)
def test_visible_scopes_match_a_plain_statement_of_the_rule(viewer: Scope, scope: Scope) -> None:
    seen = visible_scopes(viewer)
    assert (scope in seen) == may_see(viewer, scope)
    assert [scope_level(one) for one in seen] == sorted({scope_level(one) for one in seen})


@given(scopes, scopes)
def test_two_scopes_share_a_key_only_when_they_are_equal(one: Scope, other: Scope) -> None:
    assert (scope_key(one) == scope_key(other)) == (one == other)


def test_the_eight_levels_are_in_the_order_of_the_table() -> None:
    assert [scope_level(one) for one in EIGHT] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert visible_scopes(EIGHT[0]) == EIGHT
    assert visible_scopes(Scope()) == (Scope(),)
    assert scope_label(EIGHT[2]) == "agent native, company acme"


@pytest.mark.parametrize("odd", ["a\0b", "x" * 256, "line\nline", "\u202eevil", "\u200b"])
def test_an_odd_id_is_refused(odd: str) -> None:
    with pytest.raises(EntryInvalid):
        validate_scope(Scope(user=odd))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """One notebook for all examples of the property below: opening one costs more than all."""
    where: Path = tmp_path_factory.mktemp("scopes") / "harness.db"
    with open_notebook(where, agents=AGENTS, embedder=WordEmbedder().embedder) as opened:
        yield opened


@settings(max_examples=60)
@given(
    st.lists(scopes, min_size=1, max_size=5), st.lists(scopes, min_size=1, max_size=4), every_way
)
def test_no_viewer_sees_an_entry_of_another_user_company_or_agent(
    shared: Notebook, written: list[Scope], viewers: list[Scope], options: InjectionOptions
) -> None:
    kept = [
        made
        for scope in written
        for made in (
            shared.add(NoteContent(text="the same words", scope=scope)),
            shared.add(ExampleContent(input="the same words", output="yes", scope=scope)),
        )
    ]
    try:
        for viewer in viewers:
            given_ = shared.inject(viewer, "the same words", options=options)
            assert {entry.id for entry in given_.entries} == {
                entry.id for entry in kept if may_see(viewer, entry.scope)
            }
            levels = [scope_level(note.scope) for note in given_.notes]
            assert levels == sorted(levels)
    finally:
        for entry in kept:
            shared.remove(entry.id)


def test_a_private_note_is_visible_to_its_user_only(book: Notebook) -> None:
    secret = book.add(NoteContent(text="the launch is on Monday", scope=Scope(user="ann")))
    assert book.inject(Scope(user="ann"), "when is the launch").notes == (secret,)
    for stranger in (Scope(), Scope(user="bob"), Scope(user="Ann"), Scope(company="ann")):
        assert book.inject(stranger, "when is the launch").notes == ()


def test_a_note_moved_to_another_user_is_not_visible_to_the_first(book: Notebook) -> None:
    note = book.add(NoteContent(text="the launch is on Monday", scope=Scope(user="ann")))
    assert book.inject(Scope(user="ann"), "launch").notes == (note,)
    book.edit(replace(note, scope=Scope(user="bob")))
    assert book.inject(Scope(user="ann"), "launch").notes == ()
    assert len(book.inject(Scope(user="bob"), "launch").notes) == 1
