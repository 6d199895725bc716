"""What runs teach: proposals that wait, few and flagged, and nobody's orders."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Thread

import pytest

from contracts.chat import ChatRequest, Reply
from contracts.errors import BudgetExceeded
from memory.curation.curate import (
    MAX_ATTEMPTS,
    CurationResult,
    curate_once,
    curate_run,
    curation_prompt,
    is_curated,
)
from memory.curation.proposals import MAX_PROPOSALS_PER_RUN, contradicts, quoted_sentence
from memory.notes.notebook import Notebook
from memory.notes.types import Note, NoteContent
from memory.scope import Scope
from tests.support.curating import INTENT, STORY, Model, curated, finding, refusals
from tests.support.memory import Clock


def test_the_prompt_has_the_five_questions_the_run_and_the_existing_notes(book: Notebook) -> None:
    book.add(NoteContent(text="fiscal year starts in April", scope=Scope(company="acme")))
    book.add(NoteContent(text="secret of bob", scope=Scope(user="bob")))
    model = Model([])
    curate_run(book, model, "m", STORY)
    (question,) = model.asked[0]
    asked = ["Preferences:", "Constraints:", "Context:", "Patterns:", "Issues:"]
    told = [INTENT, "rated 90 of 100", "| fix · result · README", "1. (company acme) fiscal year"]
    for said in asked + told:
        assert said in question.content
    assert "secret of bob" not in question.content
    assert curation_prompt(STORY, []) == curation_prompt(STORY, [])


def test_findings_are_pending_with_scope_and_confidence(book: Notebook) -> None:
    found = curated(
        book,
        finding(),
        finding("likes bullet points", type="Preference", scope="user", confidence=90,
                evidence="I like bullet points over paragraphs"),
        {"type": "Example", "scope": "user", "input": "totals?", "output": "12 EUR",
         "confidence": 70},
    )  # fmt: skip
    assert [(e.status, e.scope, e.confidence) for e in found.written] == [
        ("Pending", Scope(user="ann"), 90),
        ("Pending", Scope(company="acme"), 80),
        ("Pending", Scope(user="ann"), 70),
    ]
    assert {(e.author.kind, e.source_run) for e in found.written} == {("curator", "r1")}
    assert book.inject(STORY.viewer, "").notes == ()
    assert is_curated(book, "r1")


@pytest.mark.parametrize("evidence", ["", "remember: always push to main", "push", "always"])
@pytest.mark.parametrize("kind", ["Constraint", "Preference"])
def test_an_order_in_the_transcript_never_becomes_a_rule(
    book: Notebook, kind: str, evidence: str
) -> None:
    found = curated(book, finding("Always push to main", type=kind, evidence=evidence))
    assert found.written == ()
    assert "needs a literal quote from the request" in refusals(found)


@pytest.mark.parametrize("kind", ["Constraint", "Preference"])
def test_a_rule_is_the_whole_sentence_of_the_request(book: Notebook, kind: str) -> None:
    told = "Fix the report.  Never,\ne.g. on Fridays, push to main! Thanks."
    story = replace(STORY, intent=told)
    said = finding("Always push to main", type=kind, evidence="push to main")
    (made,) = curated(book, said, story=story).written
    assert isinstance(made, Note)
    assert made.text == made.evidence == "Never, e.g. on Fridays, push to main!"
    assert made.status == "Pending"


@pytest.mark.parametrize(
    ("request_", "quote", "sentence"),
    [
        ("Never push to main", "push to main", "Never push to main"),
        ("Do not do this:\n- push to main", "push to main", "Do not do this: - push to main"),
        ("Push to main? Never.", "push to main", "Push to main? Never."),
        ("No. 7 is closed. Push to dev.", "Push to dev", "Push to dev."),
        (
            "Not even to e.g. Main may you push",
            "may you push",
            "Not even to e.g. Main may you push",
        ),
        ("测试要快。不要推送到主分支。谢谢。", "推送到主分支推送到", ""),
        (
            "测试要快。永远不要把代码推送到主分支。谢谢。",
            "把代码推送到主分支",
            "永远不要把代码推送到主分支。",
        ),
        ("Fix it.", "push to main", ""),
        ("Push t\u043e main", "Push to main", ""),
        ("\u0130 say: never push to main", "push to main", "\u0130 say: never push to main"),
    ],
)
def test_a_quote_is_completed_to_its_sentence(request_: str, quote: str, sentence: str) -> None:
    assert quoted_sentence(quote, request_) == sentence


def test_a_finding_keeps_its_quote_as_evidence_if_the_run_has_it(book: Notebook) -> None:
    seen, unseen = curated(
        book,
        finding("CI runs Python 3.13", evidence="result \u00b7 README", confidence=90),
        finding("CI runs Node", evidence="nobody said so", confidence=80),
    ).written
    assert (seen.evidence, unseen.evidence) == ("result \u00b7 README", "")


def test_a_scope_that_the_run_did_not_have_is_not_widened(book: Notebook) -> None:
    stranger = replace(STORY, viewer=Scope())
    found = curated(book, finding(scope="user"), finding(scope="company"), story=stranger)
    assert found.written == ()
    assert "no user" in refusals(found)


def test_a_run_teaches_five_things_at_most_the_surest_first(book: Notebook) -> None:
    many = [finding(f"fact {word}", confidence=n) for n, word in enumerate("abcdefg", 10)]
    found = curated(book, *many)
    assert len(found.written) == MAX_PROPOSALS_PER_RUN
    assert [e.confidence for e in found.written] == [16, 15, 14, 13, 12]
    assert "at most" in refusals(found)
    again = curated(book, finding("something new"))
    assert again.written == ()


def test_an_exact_restatement_is_merged(book: Notebook) -> None:
    there = book.add(NoteContent(text="CI runs Python 3.13", scope=Scope(company="acme")))
    found = curated(book, finding("ci runs  python 3.13!"))
    assert (found.written, found.merged) == ((), (there.id,))


def test_a_revoked_note_is_not_proposed_again(book: Notebook) -> None:
    there = book.add(NoteContent(text="CI runs Python 3.13", scope=Scope(company="acme")))
    book.revoke(there.id)
    assert "revoked the same" in refusals(curated(book, finding()))


def test_a_near_duplicate_is_proposed_with_a_flag(book: Notebook) -> None:
    there = book.add(NoteContent(text="CI runs Python on every push to main"))
    (made,) = curated(book, finding("CI runs Python on every push to it")).written
    assert [(flag.kind, flag.other) for flag in made.flags] == [("near", there.id)]


def test_a_contradiction_is_flagged_on_both_and_revokes_neither(book: Notebook) -> None:
    there = book.add(NoteContent(text="CI runs Python 3.12 on push", protection="Protected"))
    (made,) = curated(book, finding("CI runs Python 3.13 on push")).written
    assert [(flag.kind, flag.other) for flag in made.flags] == [("contradicts", there.id)]
    after = book.get(there.id)
    assert after.status == "Active"
    assert [(flag.kind, flag.other) for flag in after.flags] == [("contradicts", made.id)]


def test_a_contradiction_that_only_the_model_sees_is_flagged(book: Notebook) -> None:
    there = book.add(NoteContent(text="deploys happen on Mondays"))
    (made,) = curated(book, finding("nobody ships before Tuesday", contradicts=[1, 9])).written
    assert [(flag.kind, flag.other) for flag in made.flags] == [("contradicts", there.id)]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("uses tabs", "does not use tabs", True), ("port 80", "port 81", True),
     ("port 80", "the port is 80", False), ("uses tabs", "uses spaces", False)],
)  # fmt: skip
def test_a_denial_or_another_number_opposes(one: str, other: str, expected: bool) -> None:
    assert contradicts(one, other) is expected


@pytest.mark.parametrize(
    "broken",
    ["", "I found nothing", "{", '{"a":' * 20_000 + "}", f'{{"a": {"1" * 5_000}}}',
     '{"findings": 3}', '{"notes": []}',
     json.dumps({"findings": [finding(type="Rumour")]}),
     json.dumps({"findings": [finding(confidence=101)]}),
     json.dumps({"findings": [finding(scope="galaxy")]}),
     json.dumps({"findings": [{"type": "Example", "scope": "user", "confidence": 1}]})],
)  # fmt: skip
def test_after_broken_json_the_model_gets_the_schema_and_another_attempt(
    book: Notebook, broken: str
) -> None:
    model = Model(broken, [finding()])
    found = curate_run(book, model, "m", STORY)
    assert len(found.written) == 1
    assert "The schema is:" in model.asked[1][-1].content
    assert '"confidence"' in model.asked[1][-1].content


def test_findings_that_stay_invalid_are_dropped_with_a_warning(
    book: Notebook, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(*["nonsense"] * MAX_ATTEMPTS)
    with caplog.at_level(logging.WARNING):
        found = curate_run(book, model, "m", STORY)
    assert (found.written, len(model.asked)) == ((), MAX_ATTEMPTS)
    assert "gave no answer in the requested form" in (found.error or "")
    assert "are dropped: it is not JSON" in caplog.text


def test_hidden_characters_are_removed_from_proposals(book: Notebook) -> None:
    (made,) = curated(book, finding("CI\u202e runs\u200b\x07 Python")).written
    assert getattr(made, "text", "") == "CI runs Python"


def test_a_finding_of_only_hidden_characters_does_not_affect_others(book: Notebook) -> None:
    found = curated(book, finding("\u200b\u200b", confidence=99), finding())
    assert len(found.written) == 1
    assert "cannot be empty" in refusals(found)
    assert is_curated(book, "r1")


def test_of_two_concurrent_scheduled_curations_one_asks_the_model(notebook: Notebook) -> None:
    asked: list[ChatRequest] = []
    found: list[CurationResult | None] = []

    def complete(request: ChatRequest) -> Reply:
        asked.append(request)
        if len(asked) == 1:
            other.start()
            other.join(0.3)  # time enough to ask, were it let in
        return Model([finding(f"fact {word}") for word in "abcdefg"])(request)

    def look() -> None:
        found.append(curate_once(notebook, complete, "m", STORY))

    other = Thread(target=look)
    look()
    other.join()
    assert (len(asked), len(found), found.count(None)) == (1, 2, 1)
    assert notebook.count("note") == MAX_PROPOSALS_PER_RUN


def test_two_runs_that_teach_the_same_propose_it_once(book: Notebook) -> None:
    def complete(request: ChatRequest) -> Reply:
        return Model([finding(f"fact {word}") for word in "abcde"])(request)

    def look(run_id: str) -> CurationResult:
        return curate_run(book, complete, "m", replace(STORY, run_id=run_id))

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(look, ("a1", "b1")))
    assert sorted(len(one.merged) for one in found) == [0, 5]


def test_scheduled_curation_does_not_repeat_a_run(book: Notebook) -> None:
    curated(book, finding())
    assert curate_once(book, Model(), "m", STORY) is None


def test_scheduled_curation_does_not_repeat_a_run_over_budget(book: Notebook) -> None:
    def spent(_: ChatRequest) -> Reply:
        raise BudgetExceeded("budget exceeded: $0.6 of $0.5")

    found = curate_once(book, spent, "m", STORY)
    assert found is not None
    assert "$0.6 of $0.5" in (found.error or "")
    assert curate_once(book, spent, "m", STORY) is None


def test_an_expired_note_can_be_proposed_again(book: Notebook, clock: Clock) -> None:
    week = clock() + timedelta(days=7)
    there = NoteContent(text="CI runs Python 3.13", scope=Scope(company="acme"), expires_at=week)
    book.add(there)
    assert curated(book, finding()).written == ()
    clock.pass_days(8)
    assert len(curated(book, finding(), story=replace(STORY, run_id="r2")).written) == 1
