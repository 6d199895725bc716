import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Reply, Usage
from contracts.errors import ModelUnavailable
from contracts.tool import ToolCall
from providers.scripted import scripted_complete
from providers.trajectory import Trajectory, record

USER = Message(role="user", content="the password is hunter2")
CALL = ToolCall(id="c1", name="bash", arguments='{"command": "echo hunter2"}')
REPLIES = [
    Reply(message=Message(role="assistant", tool_calls=(CALL,)), usage=Usage(input=9)),
    Reply(message=Message(role="assistant", content="")),
    Reply(message=Message(role="assistant", content="done\u2028über"), usage=Usage(cost_usd=0.5)),
]


def redact(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "trajectory.jsonl"


def recorded(path: Path) -> list[dict[str, object]]:
    with Trajectory(path, redact=redact) as trajectory:
        replies = iter(REPLIES)
        complete = record(lambda _: next(replies), trajectory)
        messages = [USER]
        for answer in ("hunter2", "go on", ""):
            said = complete(ChatRequest(model="m", messages=tuple(messages))).message
            messages += [said, Message(role="user", content=answer)]
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recorded_run_replays_as_a_script(path: Path) -> None:
    recorded(path)
    model = scripted_complete(path)
    ask = ChatRequest(model="m", messages=[USER])
    replayed = [model(ask) for _ in REPLIES]
    assert [reply.message.content for reply in replayed] == ["", "", "done\u2028über"]
    assert [reply.usage for reply in replayed] == [reply.usage for reply in REPLIES]
    assert replayed[0].message.tool_calls[0].arguments == '{"command": "echo ***"}'


def test_a_request_is_written_without_what_was_written_before(path: Path) -> None:
    requests = [event for event in recorded(path) if event["kind"] == "request"]
    assert [event["messages"] for event in requests] == [
        [{"role": "user", "content": "the password is ***"}],
        [{"role": "user", "content": "***"}],
        [{"role": "user", "content": "go on"}],
    ]


def test_secrets_are_redacted_at_any_depth(path: Path) -> None:
    recorded(path)
    assert "hunter2" not in path.read_text()


def test_an_old_file_is_continued(path: Path) -> None:
    for text in ("one", "two"):
        with Trajectory(path, redact=redact) as trajectory:
            trajectory.write("note", text=text)
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert texts == ["one", "two"]


def test_threads_write_whole_lines(path: Path) -> None:
    with Trajectory(path, redact=redact) as trajectory, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: trajectory.write("note", n=n, text="x" * 10_000), range(100)))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(event["n"] for event in events) == list(range(100))


def test_a_call_that_fails_leaves_its_request(path: Path) -> None:
    def refuse(_: ChatRequest) -> Reply:
        raise ModelUnavailable("no")

    with Trajectory(path, redact=redact) as trajectory, pytest.raises(ModelUnavailable):
        record(refuse, trajectory)(ChatRequest(model="m", messages=[USER]))
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["request"]
