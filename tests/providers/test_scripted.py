import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Usage
from contracts.errors import ModelUnavailable, OptionInvalid
from contracts.tool import ToolCall
from providers.call_model import RunModels
from providers.protocol import collect
from tests.support.direct import model_request, scripted_complete

ASK = ChatRequest(model="scripted/any", messages=[Message(role="user", content="go")])
CALL = {"function": {"name": "bash", "arguments": {"command": "ls"}}}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


def write(script: Path, *replies: object) -> None:
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))


def test_replies_come_in_order(script: Path) -> None:
    write(script, {"content": "one"}, {"content": "two"})
    model = scripted_complete(script)
    assert [model(ASK).message.content for _ in range(2)] == ["one", "two"]


def test_arguments_may_be_an_object_and_ids_may_be_left_out(script: Path) -> None:
    write(script, {"content": None, "tool_calls": [CALL, CALL]})
    reply = scripted_complete(script)(ASK)
    assert reply.message.tool_calls == (
        ToolCall(id="call_1_1", name="bash", arguments='{"command": "ls"}'),
        ToolCall(id="call_1_2", name="bash", arguments='{"command": "ls"}'),
    )
    assert reply.stop_reason == "tool_calls"


def test_malformed_arguments_are_replayed_as_they_are(script: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{oops"}}
    write(script, {"tool_calls": [call]})
    (replayed,) = scripted_complete(script)(ASK).message.tool_calls
    assert replayed == ToolCall(id="a", name="bash", arguments="{oops")


def test_usage_is_what_the_script_says(script: Path) -> None:
    write(script, {"content": "x", "usage": {"input": 9, "cache_read": 3, "cost_usd": 0.5}})
    assert scripted_complete(script)(ASK).usage == Usage(input=9, cache_read=3, cost_usd=0.5)


def test_a_json_array_is_a_script(script: Path) -> None:
    script.write_text(json.dumps([{"content": "one"}, {"content": "two"}], indent=2))
    model = scripted_complete(script)
    assert [model(ASK).message.content for _ in range(2)] == ["one", "two"]


def test_only_assistant_messages_of_a_conversation_are_replayed(script: Path) -> None:
    write(
        script,
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "a.py", "tool_call_id": "x"},
        {"role": "assistant", "content": "done"},
    )
    model = scripted_complete(script)
    model(ASK)
    assert model(ASK).message.content == "done"


def test_the_end_of_a_script_is_an_outage_with_numbers(script: Path) -> None:
    write(script, {"content": "one"})
    model = scripted_complete(script)
    model(ASK)
    with pytest.raises(ModelUnavailable, match="no reply left: 1 replies, call 2"):
        model(ASK)


def test_threads_get_each_reply_once(script: Path) -> None:
    write(script, *({"content": str(number)} for number in range(200)))
    model = scripted_complete(script)
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: model(ASK).message.content, range(200)))
    assert sorted(said, key=int) == [str(number) for number in range(200)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"content": "x"}\n{oops\n', "line 2: Invalid JSON"),
        ('{"content": "x"}\n\n{"contnet": "x"}\n', "line 3: contnet: Extra inputs"),
        ("[1, 2]", "reply 1: Input should be an object"),
        ('[{"content": "x"}', "line 1: Invalid JSON"),
        ('{"tool_calls": [{"function": {}}]}', "line 1: tool_calls.0.function.name: Field"),
        ('{"kind": "reply"}', "line 1: message: Field required"),
        ("", "holds no assistant reply"),
        ('{"role": "user", "content": "x"}', "holds no assistant reply"),
        ("[" * 100_000, "line 1: Invalid JSON"),
    ],
)
def test_a_malformed_script_names_the_line(script: Path, text: str, told: str) -> None:
    script.write_text(text)
    with pytest.raises(OptionInvalid, match=told):
        scripted_complete(script)


def test_a_missing_or_binary_script_is_bad_input(script: Path) -> None:
    with pytest.raises(OptionInvalid, match="cannot read scripted model"):
        scripted_complete(script)
    script.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionInvalid, match="cannot read scripted model"):
        scripted_complete(script)


def test_conversations_of_one_run_share_the_script(script: Path) -> None:
    write(script, {"content": "one"}, {"content": "two"})
    model, ask = f"scripted/{script}", model_request(ASK)
    run, other_run = RunModels(), RunModels()
    said = [collect(run.call([model], ask).parts)[0].content for _ in range(2)]
    assert said == ["one", "two"]
    assert collect(other_run.call([model], ask).parts)[0].content == "one"
