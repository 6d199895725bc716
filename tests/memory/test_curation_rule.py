"""What the operator's rule approves without a person, and what waits all the same."""

from dataclasses import replace

import pytest

from memory.curation.curation_rule import Rule
from memory.curation.proposals import Story
from memory.notes.notebook import Notebook
from memory.notes.types import NoteContent
from memory.scope import Scope
from tests.memory.conftest import WordEmbedder
from tests.memory.curating import STORY, curated, finding


def test_nothing_is_approved_without_the_operators_rule(book: Notebook) -> None:
    (made,) = curated(book, finding(confidence=100)).written
    assert made.status == "Pending"


def test_the_operators_rule_approves_descriptions_that_stay_at_home(book: Notebook) -> None:
    found = curated(
        book,
        finding("a fact of ann", scope="user", confidence=95),
        finding("a fact of everyone", scope="global", confidence=95),
        finding("an unsure fact of ann", scope="user", confidence=10),
        finding("likes bullet points", type="Preference", scope="user", confidence=95,
                evidence="I like bullet points"),
        rule=Rule(confidence=90),
    )  # fmt: skip
    words = {getattr(entry, "text", ""): entry.status for entry in found.written}
    assert words == {
        "a fact of ann": "Active",
        "a fact of everyone": "Pending",
        "an unsure fact of ann": "Pending",
        "likes bullet points": "Pending",
    }


@pytest.mark.parametrize(
    "story",
    [replace(STORY, viewer=Scope()), replace(STORY, intent_from="issue:7")],
    ids=["for nobody", "asked by nobody known"],
)
@pytest.mark.parametrize("scope", ["user", "company", "global"])
def test_the_rule_approves_nothing_of_a_run_that_no_known_person_asked_for(
    book: Notebook, story: Story, scope: str
) -> None:
    found = curated(book, finding(scope=scope, confidence=99), story=story, rule=Rule(confidence=9))
    assert {entry.status for entry in found.written} <= {"Pending"}


def test_the_rule_approves_no_order_though_the_request_gave_it(book: Notebook) -> None:
    order = "totals must be in euros"
    said = finding(order, scope="user", evidence=order, confidence=99)
    (made,) = curated(book, said, rule=Rule(confidence=90)).written
    assert made.status == "Pending"


def test_the_rule_approves_nothing_while_the_model_is_away(
    book: Notebook, words: WordEmbedder
) -> None:
    book.add(NoteContent(text="CI runs Python 3.12 on push", scope=Scope(user="ann")))
    new = finding("CI runs Python 3.13 on push", scope="user", confidence=99)
    words.down = True
    assert [made.status for made in curated(book, new, rule=Rule(confidence=9)).written] == [
        "Pending"
    ]


def test_the_rule_approves_nothing_that_could_not_be_compared_with_all(
    book: Notebook, words: WordEmbedder
) -> None:
    words.down = True
    book.add(NoteContent(text="CI runs Python 3.12 on push", scope=Scope(user="ann")))
    words.down = False
    new = finding("CI runs Python 3.13 on push", scope="user", confidence=99)
    (made,) = curated(book, new, rule=Rule(confidence=9)).written
    assert (made.status, made.flags) == ("Pending", ())
    book.vectors.make_missing()
    other = replace(STORY, run_id="r2")
    new = finding("ann's desk is by the window", scope="user", confidence=99)
    (made,) = curated(book, new, story=other, rule=Rule(confidence=9)).written
    assert made.status == "Active"
