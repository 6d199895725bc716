"""What one run may write through the tools, however it asks; on both databases."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from sqlalchemy import event

from memory.errors import EntryNotFound
from memory.playbooks.library import Library
from memory.playbooks.tools import MAX_CHARACTERS, MAX_NEW_PLAYBOOKS, MAX_WRITES
from memory.types import PlaybookChanges, PlaybookContent
from tests.support.memory import Open
from tests.support.memory_runs import call_as


def test_a_run_can_write_twenty_times_and_create_five_playbooks(
    opened: Open,
) -> None:
    done: dict[str, int] = {"r1": 0, "r2": 0}
    for run_id in ("r1", "r2", "r1"):
        with opened() as library:
            ask = partial(call_as, run_id, "draft", library)
            made = [
                ask("playbook_create", title=f"t{n}", use_case="u")
                for n in range(MAX_NEW_PLAYBOOKS)
            ]
            kept = [one["id"] for one in made if "error" not in one]
            assert len(kept) == (MAX_NEW_PLAYBOOKS if not done[run_id] else 0)
            assert "error" in ask("playbook_update", id="t0", process="x" * (MAX_CHARACTERS + 1))
            assert ask("playbook_delete", id="none") == {"deleted": False}
            for number in range(MAX_WRITES if kept else 1):
                told = ask("playbook_update", id=(kept or ["t0"])[0], notes=f"n{number}")
                done[run_id] += "error" not in told
            assert "has used up" in str(told["error"])
            if kept:
                assert "has used up" in str(ask("playbook_delete", id=kept[0])["error"])
    assert done == {"r1": MAX_WRITES - MAX_NEW_PLAYBOOKS, "r2": MAX_WRITES - MAX_NEW_PLAYBOOKS}


def test_parallel_lanes_share_the_limits_of_their_run(library: Library) -> None:
    def make(number: int) -> bool:
        made = call_as("r", "draft", library, "playbook_create", title=f"t{number}", use_case="u")
        return "error" not in made

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(make, range(16))) == MAX_NEW_PLAYBOOKS
    assert library.stats().playbooks == MAX_NEW_PLAYBOOKS


def test_an_agent_cannot_write_a_playbook_beyond_the_size_limit(library: Library) -> None:
    ask = partial(call_as, "r", "draft", library)
    long = "x" * MAX_CHARACTERS
    assert "an agent may write" in str(ask("playbook_create", title="t", use_case=long)["error"])
    steps = [{"action": "a", "tool_args": {"x": long}}]
    refused = ask("playbook_create", title="t", use_case="u", steps=steps)
    assert "an agent may write" in str(refused["error"])
    theirs = library.create(
        PlaybookContent(title="t", process=long * 2, status="draft"), source="run r"
    )
    assert "an agent may write" in str(ask("playbook_update", id=theirs.id, notes="n")["error"])
    assert ask("playbook_update", id=theirs.id, process="short", notes="n")["process"] == "short"


def meanwhile(library: Library, do: Callable[[], object]) -> None:
    """Do this once, after the next transaction of the library and before the one after it."""
    waiting = [do]

    def after(*_: object) -> None:
        if waiting:
            waiting.pop()()

    event.listen(library.engine, "checkin", after)


@pytest.mark.parametrize("name", ["playbook_update", "playbook_delete"])
def test_an_agent_cannot_change_a_draft_that_a_person_activated(opened: Open, name: str) -> None:
    with opened() as person, opened() as agent:
        content = PlaybookContent(title="t", process="good", status="draft")
        draft = person.create(content, source="run evil")
        active: list[tuple[str, str]] = []

        def activate() -> None:
            with suppress(EntryNotFound):  # deleted before: that was no playbook of a person
                now = person.update(draft.id, PlaybookChanges(status="active"), expected_version=1)
                active.append((now.status, now.process))

        meanwhile(agent, activate)
        arguments = {"process": "evil"} if name == "playbook_update" else {}
        call_as("evil", "draft", agent, name, id=draft.id, **arguments)
        assert [(one.status, one.process) for one in person.list()] == active


def test_a_future_expected_version_is_refused(opened: Open) -> None:
    with opened() as person, opened() as agent:
        draft = person.create(PlaybookContent(title="t", status="draft"), source="run r")
        meanwhile(agent, lambda: person.update(draft.id, PlaybookChanges(status="active")))
        asked = {"id": draft.id, "expected_version": 2, "process": "evil"}
        assert "error" in call_as("r", "draft", agent, "playbook_update", **asked)
        assert (person.get(draft.id).status, person.get(draft.id).process) == ("active", "")
