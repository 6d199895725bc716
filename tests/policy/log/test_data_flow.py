"""Search of entities: by id, by words, and by their relations."""

import pytest

from contracts.entity import Entity, Label
from policy.errors import EntityNotFound
from policy.log.data_flow import (
    EntityGraph,
    entity_graph,
    find_entity,
    search_entities,
    within_steps,
)
from policy.log.event_log import EventLog
from policy.log.events import Draft, History
from tests.support.policy import draft, entity

EDGES = {"a": "bc", "b": "d", "c": "dx", "d": "e", "x": "y", "e": "a", "y": ""}
GRAPH = EntityGraph(
    onward={name: set(targets) for name, targets in EDGES.items()},
    backward={name: {source for source in EDGES if name in EDGES[source]} for name in EDGES},
)


@pytest.fixture
def chain(log: EventLog) -> tuple[str, ...]:
    """A prompt and a page become a draft, the draft a mail; a cake is part of the page."""
    prompt, page = entity("mail bob"), entity({"text": "a recipe for cake"})
    text, mail = entity("draft for bob"), entity("the mail, sent to bob")
    cake = Entity(content="oven", label=Label(), origin="test", part_of=page.id)
    log.append([draft(prompt), draft(page)])
    log.append([draft(text, of=(prompt, page)), draft(mail, of=(text,)), draft(cake)])
    return (prompt.id, page.id, text.id, mail.id, cake.id)


def found(log: EventLog, text: str, limit: int = 10) -> list[str]:
    return [one.id for one in search_entities(log.history(), text, limit=limit)]


def test_entities_with_every_word_are_found_newest_first(
    log: EventLog, chain: tuple[str, ...]
) -> None:
    prompt, page, text, mail, cake = chain
    assert found(log, "BOB") == [mail, text, prompt]
    assert found(log, "bob mail") == [mail, prompt]
    assert found(log, "bob", limit=1) == [mail]
    assert found(log, "cake recipe") == [page]
    assert found(log, "oven test") == [cake], "words of the origin count too"
    assert found(log, "%") == []


def test_case_and_script_of_words_do_not_matter(log: EventLog) -> None:
    opened = entity({"text": 'Öffnungszeiten "Straße"'})
    log.append([draft(opened)])
    assert found(log, "öffnung STRASSE") == [opened.id]


def test_an_empty_log_contains_nothing(log: EventLog) -> None:
    assert found(log, "anything") == []


def test_entities_are_related_by_events_and_by_parts(log: EventLog, chain: tuple[str, ...]) -> None:
    prompt, page, text, mail, cake = chain
    graph = entity_graph(log.history())
    assert within_steps(text, graph.neighbours).keys() == {prompt, page, text, mail}
    assert graph.between(page, mail) == {page, text, mail}
    assert graph.onward[page] == {text, cake}
    assert graph.backward[cake] == {page}


def test_a_relation_is_followed_in_both_directions(log: EventLog, chain: tuple[str, ...]) -> None:
    mail, cake = chain[3:]
    log.append([Draft(kind="relation", run_id="r", consumes=(mail, cake))])
    graph = entity_graph(log.history())
    assert cake in graph.onward[mail]
    assert mail in graph.backward[cake]


def test_distances_are_counted_in_steps() -> None:
    onward = GRAPH.onward.__getitem__
    assert within_steps("a", onward) == {"a": 0, "b": 1, "c": 1}
    assert within_steps("a", onward, steps=2) == {"a": 0, "b": 1, "c": 1, "d": 2, "x": 2}
    assert within_steps("y", onward) == {"y": 0}


def test_between_returns_every_path_including_circles() -> None:
    assert GRAPH.between("c", "d") == {"a", "b", "c", "d", "e"}
    assert GRAPH.between("c", "y") >= {"c", "x", "y"}
    assert GRAPH.between("y", "a") == frozenset()


def test_an_entity_is_found_by_its_prefix_or_that_of_its_event(
    log: EventLog, chain: tuple[str, ...]
) -> None:
    event = log.events()[0]
    assert find_entity(log.history(), chain[0][:12]) == chain[0]
    assert find_entity(log.history(), event.id[:12]) == chain[0]
    for wrong in ("", "nothing"):
        with pytest.raises(EntityNotFound):
            find_entity(log.history(), wrong)


def test_a_prefix_of_several_entities_is_refused() -> None:
    entities = {f"aa{n}": Entity(content=n, label=Label(), origin="t") for n in range(2)}
    with pytest.raises(EntityNotFound, match="2 entities"):
        find_entity(History(entities=entities), "aa")
