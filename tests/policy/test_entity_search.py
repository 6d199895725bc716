"""Entities found by words and by which was made from which, on both databases."""

import pytest
from policy.log.entity_search import (
    entities_made_from,
    entities_used_by,
    neighbours,
    search_entities,
)

from contracts.entity import Entity, Label
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.log.search import on_paths_between, within_steps
from tests.support.policy import draft, entity


@pytest.fixture
def chain(log: EventLog) -> tuple[str, ...]:
    """A prompt and a page become a draft, the draft a mail; a cake stands apart."""
    asked, page = entity("mail bob"), entity({"text": "a recipe for cake"})
    text, mail = entity("draft for bob"), entity("the mail, sent to bob")
    cake = Entity(content="oven", label=Label(), origin="test", part_of=page.id)
    log.append([draft(asked), draft(page), draft(text, of=(asked, page)), draft(mail, of=(text,))])
    log.append([draft(cake)])
    return (asked.id, page.id, text.id, mail.id, cake.id)


def found(log: EventLog, text: str, limit: int = 10) -> list[str]:
    return [one.id for one in search_entities(log, text, limit=limit)]


def test_entities_with_every_word_are_found_the_newest_first(
    log: EventLog, chain: tuple[str, ...]
) -> None:
    asked, page, text, mail, cake = chain
    assert found(log, "BOB") == [mail, text, asked]
    assert found(log, "bob mail") == [mail, asked]
    assert found(log, "bob", limit=1) == [mail]
    assert found(log, "cake recipe") == [page]
    assert found(log, "oven test") == [cake], "words of the origin count too"
    assert found(log, "%") == []


def test_words_are_found_whatever_their_case_and_script(log: EventLog) -> None:
    opened = entity({"text": 'Öffnungszeiten "Straße"'})
    log.append([draft(opened)])
    assert found(log, "öffnung STRASSE") == [opened.id]


def test_nothing_is_found_in_an_empty_log(log: EventLog) -> None:
    assert found(log, "anything") == []


def test_neighbours_and_the_graph_between_two(log: EventLog, chain: tuple[str, ...]) -> None:
    asked, page, text, mail, cake = chain
    ahead, behind = entities_made_from(log.engine), entities_used_by(log.engine)
    assert within_steps(text, neighbours(log.engine)).keys() == {asked, page, text, mail}
    assert on_paths_between(page, mail, ahead, behind) == {page, text, mail}
    assert ahead(page) == sorted([text, cake])
    assert behind(cake) == [page]


def test_a_relation_leads_both_ways(log: EventLog, chain: tuple[str, ...]) -> None:
    log.append([Draft(kind="relation", run_id="r", consumes=(chain[3], chain[4]))])
    assert chain[4] in entities_made_from(log.engine)(chain[3])
    assert chain[3] in entities_used_by(log.engine)(chain[4])
