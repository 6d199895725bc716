import json
from pathlib import Path

import pytest

from providers.trajectory import event_line, first_difference, read_trajectory

CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command":1}'}}
REPLY = {
    "kind": "reply",
    "node": "fix",
    "message": {"role": "assistant", "content": "I\nlook", "tool_calls": [CALL]},
    "usage": {"input": 900, "output": 20},
    "latency_ms": 7,
}
DECISION = {"kind": "decision", "node": "fix", "tool": "bash", "verdict": "denied", "reason": "no"}
RESULT = {"kind": "result", "node": "fix", "call": "c", "digest": "aa", "text": "1 passed"}
REQUEST = {"kind": "request", "node": "fix", "messages": [{"role": "user", "content": "go"}]}


def write(path: Path, *events: object) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (REPLY, 'fix · reply · I look · bash {"command":1} · 900 + 20 tokens · 7 ms'),
        (DECISION, "fix · decision · bash denied · no"),
        (RESULT, "fix · result · 1 passed"),
        (REQUEST, "fix · request · user: go"),
        ({"kind": "broken", "node": "fix", "why": "cut"}, "fix · broken · cut"),
        ({}, "nothing"),
    ],
)
def test_each_event_is_one_line(event: dict[str, object], line: str) -> None:
    assert event_line(event) == line


def test_an_incomplete_line_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "t", REPLY)
    path.write_text(path.read_text() + '{"kind": "rep')
    assert list(read_trajectory(path)) == [REPLY]


def test_latency_and_result_texts_are_not_compared(tmp_path: Path) -> None:
    old = write(tmp_path / "old", REQUEST, {**REPLY, "latency_ms": 900}, RESULT)
    assert first_difference(old, write(tmp_path / "new", REPLY, {**RESULT, "text": "2 s"})) is None


def test_the_first_different_step_is_reported(tmp_path: Path) -> None:
    old = write(tmp_path / "old", REPLY, DECISION, RESULT)
    new = write(tmp_path / "new", REPLY, DECISION, {**RESULT, "digest": "bb", "text": "1 failed"})
    assert str(first_difference(old, new)) == (
        "step 3 differs: was 'fix · result · 1 passed', is 'fix · result · 1 failed'"
    )
    short = write(tmp_path / "short", REPLY)
    assert str(first_difference(old, short)).endswith("is 'nothing'")


def test_a_last_request_without_an_answer_is_a_step(tmp_path: Path) -> None:
    old = write(tmp_path / "old", REPLY)
    new = write(
        tmp_path / "new", REPLY, {**REQUEST}, {"kind": "broken", "node": "fix", "why": "no"}
    )
    assert (
        str(first_difference(old, new))
        == "step 2 differs: was 'nothing', is 'fix · unanswered · no'"
    )


def test_an_interrupted_answer_is_a_step(tmp_path: Path) -> None:
    cut = {"kind": "broken", "node": "fix", "why": "cut", "message": {"content": "I lo"}}
    old = write(tmp_path / "old", REQUEST, cut, REQUEST, REPLY)
    assert first_difference(old, write(tmp_path / "new", cut, REPLY)) is None
    assert (
        str(first_difference(old, write(tmp_path / "other", REPLY)))
        == f"step 1 differs: was 'fix · broken · I lo · cut', is '{event_line(REPLY)}'"
    )


def test_results_of_playbook_tools_are_not_compared(tmp_path: Path) -> None:
    function = {"name": "mcp__playbooks__playbook_search", "arguments": "{}"}
    asked = {**REPLY, "message": {"tool_calls": [{"id": "c", "function": function}]}}
    old = write(tmp_path / "old", asked, RESULT)
    assert first_difference(old, write(tmp_path / "new", asked, {**RESULT, "digest": "bb"})) is None
