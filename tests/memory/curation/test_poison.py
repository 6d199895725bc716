"""Orders in a transcript, in eight languages and disguised: none becomes active by any door."""

import base64
import codecs
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Reply
from memory.content import playbook_to_text
from memory.curation.curate import curate_run
from memory.notes.notebook import Notebook
from memory.notes.types import EntryFilter
from memory.playbooks.learn import credited_playbook, record_run, reflect
from memory.playbooks.library import Library
from memory.playbooks.recall import recall_playbooks
from memory.types import PlaybookContent, PlaybookFilter
from tests.support.curating import STORY, Model, finding
from tests.support.memory_runs import SHOW_ALL, call_as, ended

ORDERS = [
    line.split(" | ", 1)[1]
    for line in Path(__file__).with_name("poison.txt").read_text("utf-8").splitlines()
]
"""Five orders in each of eight languages."""

_ALIKE = str.maketrans("aeopcxi", "\u0430\u0435\u043e\u0440\u0441\u0445\u0456")

DISGUISES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "look-alike letters": lambda text: f"N.B. {text}".translate(_ALIKE).upper(),
    "zero width spaces": "\u200b".join,
    "base64": lambda text: "decode and obey: " + base64.b64encode(text.encode()).decode(),
    "rot13 in a quotation": lambda text: (
        f"the person said: \u201c{codecs.encode(text, 'rot13')}\u201d"
    ),
}
TEXTS = [disguise(text) for text in ORDERS for disguise in DISGUISES.values()]


def test_there_are_200_poisoned_texts() -> None:
    assert len(set(TEXTS)) == 200


def test_no_poisoned_finding_becomes_active(book: Notebook) -> None:
    for number in range(0, len(TEXTS), 5):
        texts = TEXTS[number : number + 5]
        files = tuple(f"README: {text}" for text in texts)
        story = replace(STORY, run_id=f"r{number}", transcript=files)
        answer = [
            finding(text, type=type_, scope="global", evidence=text, confidence=100)
            for text in texts
            for type_ in ("Constraint", "Preference", "Context")
        ]
        pair = {"type": "Example", "scope": "global", "confidence": 100}
        answer += [{**pair, "input": "how?", "output": text} for text in texts]
        curate_run(book, Model(answer), "m", story)
    for kind in ("note", "example"):
        assert book.count(kind, EntryFilter(status="Active")) == 0
    rules = [note for note in book.list("note") if note.type in ("Constraint", "Preference")]
    assert rules == []
    assert book.count("note", EntryFilter(status="Pending")) > 100
    assert book.inject(STORY.viewer, "push to main").entries == ()


def test_no_poisoned_lesson_or_draft_reaches_another_run(on_sqlite: Library) -> None:
    made = on_sqlite.create(PlaybookContent(title="deploy the service"))
    before = playbook_to_text(made)

    def conclude(text: str) -> Callable[[ChatRequest], Reply]:
        said = {"what_failed": [text], "improvements": [text], "what_worked": [text]}

        def complete(_: ChatRequest) -> Reply:
            answer = json.dumps(said | {"new_playbook": text if len(text) % 2 else ""})
            return Reply(message=Message(role="assistant", content=answer))

        return complete

    for number, text in enumerate(TEXTS):
        run_id = f"r{number}"
        recall_playbooks(on_sqlite, run_id=run_id, task="deploy", options=SHOW_ALL)
        report = ended(run_id, "success", said=text)
        playbook = credited_playbook(on_sqlite, report)
        record_run(on_sqlite, report, reflection=reflect(conclude(text), "m", report, playbook))
        call_as(run_id, "draft", on_sqlite, "playbook_create", title=text, process=text,
                status="active")  # fmt: skip
        call_as(run_id, "draft", on_sqlite, "playbook_update", id=made.id, process=text)
    shown = recall_playbooks(on_sqlite, run_id="next", task="deploy the service", options=SHOW_ALL)
    assert shown.shown == (made.id,)
    assert not any(text in shown.text for text in TEXTS)
    reviewed = on_sqlite.list(PlaybookFilter(drafts=False))
    assert [one.id for one in reviewed] == [made.id]
    after = replace(on_sqlite.get(made.id), counts=made.counts)
    assert playbook_to_text(after) == before


@pytest.mark.parametrize("kind", ["Constraint", "Preference"])
def test_a_denial_in_the_request_cannot_be_dropped(book: Notebook, kind: str) -> None:
    story = replace(STORY, intent="Please fix the report. Never push to main.")
    said = finding("Always push to main", type=kind, evidence="push to main", confidence=100)
    (made,) = curate_run(book, Model([said]), "m", story).written
    assert (getattr(made, "text", ""), made.status) == ("Never push to main.", "Pending")
