import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message
from providers.trajectory import Trajectory, stable_digest
from tests.support.direct import scripted_complete

ASK = ChatRequest(model="m", messages=[Message(role="user", content="go")])
FUNCTION = {"name": "bash", "arguments": '{"command": "echo hunter2"}'}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}
SAID: list[dict[str, object]] = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": "done\u2028über"},
]


def redact(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "trajectory.jsonl"


def write(path: Path) -> None:
    with closing(Trajectory(path, redact=redact)) as trajectory:
        for message in SAID:
            trajectory.write("request", messages=[{"role": "user", "content": "the hunter2"}])
            trajectory.write("reply", message=message, usage={"input": 9, "cost_usd": 0.5})


def test_a_recorded_run_replays_as_a_script(path: Path) -> None:
    write(path)
    model = scripted_complete(path)
    replayed = [model(ASK) for _ in SAID]
    assert [reply.message.content for reply in replayed] == ["", "", "done\u2028über"]
    assert [(reply.usage.input, reply.usage.cost_usd) for reply in replayed] == [(9, 0.5)] * 3
    assert replayed[0].message.tool_calls[0].arguments == '{"command": "echo ***"}'


def test_secrets_are_redacted_at_any_depth(path: Path) -> None:
    write(path)
    assert "hunter2" not in path.read_text()


def test_events_are_appended_to_an_existing_file(path: Path) -> None:
    for text in ("one", "two"):
        with closing(Trajectory(path, redact=redact)) as trajectory:
            trajectory.write("note", text=text)
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert texts == ["one", "two"]


def test_threads_write_whole_lines(path: Path) -> None:
    with closing(Trajectory(path, redact=redact)) as trajectory, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: trajectory.write("note", n=n, text="x" * 10_000), range(100)))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(event["n"] for event in events) == list(range(100))


def test_events_after_close_are_dropped(path: Path) -> None:
    trajectory = Trajectory(path, redact=redact)
    trajectory.close()
    trajectory.write("note", text="late")
    assert path.read_text() == ""


def test_digests_ignore_durations_addresses_and_times() -> None:
    one, other = (
        stable_digest(f"ran in {took}, at {place}, {time}")
        for took, place, time in (
            ("0.12s", "0x7f3a2b1c", "10:01:02"),
            ("4s", "0xdeadbee", "23:59:59"),
        )
    )
    assert one == other != stable_digest("ran in 4 minutes, at 0xdeadbee, 23:59:59")


def test_a_million_digits_do_not_block_the_gateway() -> None:
    """A search that restarts at each digit takes hours and blocks all threads."""
    assert stable_digest("1" * 1_000_000) != stable_digest("1" * 1_000_000 + "ms")
