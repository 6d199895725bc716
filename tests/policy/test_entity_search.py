"""Entities found by what they mean and by where they stand, on both databases."""

from collections.abc import Sequence

import pytest

from contracts.entity import Entity, Label
from contracts.errors import ModelUnavailable
from policy.log.entity_search import EntitySearch, backward, neighbours, onward
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.log.find import between, near
from tests.policy.conftest import draft, entity

WORDS = ("mail", "bob", "cake", "recipe", "oven")


class Counting:
    """Vectors of which words a text holds; counts what it is asked for."""

    def __init__(self, *, down: bool = False) -> None:
        self.asked: list[str] = []
        self.down = down

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        if self.down:
            raise ModelUnavailable("no embedding model")
        self.asked += texts
        return [[float(text.count(word)) for word in WORDS] for text in texts]


@pytest.fixture
def chain(log: EventLog) -> tuple[str, ...]:
    """A prompt and a page become a draft, the draft a mail; a cake stands apart."""
    asked, page = entity("mail bob"), entity({"text": "a recipe for cake"})
    text, mail = entity("draft for bob"), entity("the mail, sent to bob")
    cake = Entity(content="oven", label=Label(), origin="test", part_of=page.id)
    log.append([draft(asked), draft(page), draft(text, of=(asked, page)), draft(mail, of=(text,))])
    log.append([draft(cake)])
    return (asked.id, page.id, text.id, mail.id, cake.id)


def test_the_nearest_in_meaning_comes_first(log: EventLog, chain: tuple[str, ...]) -> None:
    embed = Counting()
    search = EntitySearch(engine=log.engine, embed=embed, model="words")
    found = search.by_meaning("mail to bob", limit=2)
    assert {one.entity.id for one in found} == {chain[0], chain[3]}
    assert found[0].distance == pytest.approx(0, abs=1e-6)
    assert search.by_meaning("cake recipe", limit=1)[0].entity.id == chain[1]


def test_what_was_embedded_once_is_not_embedded_again(
    log: EventLog, chain: tuple[str, ...]
) -> None:
    embed = Counting()
    search = EntitySearch(engine=log.engine, embed=embed, model="words")
    assert search.embed_new() == 5
    assert search.embed_new() == 0
    log.append([draft(entity("new"))])
    embed.asked.clear()
    search.by_meaning("oven")
    assert embed.asked == ["new", "oven"]
    other = EntitySearch(engine=log.engine, embed=Counting(), model="another")
    assert other.embed_new() == 6


def test_nothing_to_find_is_nothing_found(log: EventLog) -> None:
    search = EntitySearch(engine=log.engine, embed=Counting(), model="words")
    assert search.by_meaning("anything") == []


def test_a_model_that_is_down_says_so(log: EventLog, chain: tuple[str, ...]) -> None:
    search = EntitySearch(engine=log.engine, embed=Counting(down=True), model="words")
    with pytest.raises(ModelUnavailable):
        search.by_meaning("anything")


def test_neighbours_and_the_graph_between_two(log: EventLog, chain: tuple[str, ...]) -> None:
    asked, page, text, mail, cake = chain
    ahead, behind = onward(log.engine), backward(log.engine)
    assert near(text, neighbours(log.engine)).keys() == {asked, page, text, mail}
    assert between(page, mail, ahead, behind) == {page, text, mail}
    assert ahead(page) == sorted([text, cake])
    assert behind(cake) == [page]


def test_a_relation_leads_both_ways(log: EventLog, chain: tuple[str, ...]) -> None:
    log.append([Draft(kind="relation", run_id="r", consumes=(chain[3], chain[4]))])
    assert chain[4] in onward(log.engine)(chain[3])
    assert chain[3] in backward(log.engine)(chain[4])
