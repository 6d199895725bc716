"""Agents that speak ACP, well and badly: small programs in a scripted sandbox."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from contracts.chat import ChatRequest, Reply, Usage
from contracts.model_access import AgentUsage, ModelAccess, TokenSpec
from nodes.agents import agent_process
from nodes.agents.acp import acp_program
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.cli import LaunchContext, cli_agent
from nodes.agents.types import AgentLimits, AgentResult, AgentTask, Conversation
from sandbox.scripted import ScriptedSandbox

PROGRAM = """
import json, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def hear(): return json.loads(sys.stdin.readline())
def update(**fields):
    say({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})
def text(words):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": words})
def answer(result): say({"id": hear()["id"], "result": result})
def begin():
    answer({"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
    answer({"sessionId": "s1"})
def end(reason="end_turn"):
    say({"id": asked["id"], "result": {"stopReason": reason}})
"""
GOOD = "begin(); asked = hear(); text('Fix'); text('ed.'); end()"

Play = Callable[..., AgentResult]


@pytest.fixture
def play(sandbox: ScriptedSandbox) -> Play:
    """Runs a Python program in the place of an agent."""

    def run(
        script: str,
        *,
        name: str = "opencode",
        lines: list[str] | None = None,
        task: AgentTask | None = None,
    ) -> AgentResult:
        program = acp_program(name)

        def launch(order: LaunchContext) -> LaunchCommand:
            return replace(program.launch(order), argv=("python3", "-c", PROGRAM + script))

        told = lines if lines is not None else []
        agent = cli_agent(replace(program, launch=launch), open_gate, on_line=told.append)
        return agent(task or TASK, sandbox)

    return run


TASK = AgentTask(node="n", prompt="PROMPT", system="SYSTEM", model="m")


@contextmanager
def open_gate(_: TokenSpec) -> Iterator[ModelAccess]:
    spent = AgentUsage(turns=2, usage=Usage(input=100, output=7, cost_usd=0.25))
    yield ModelAccess(
        token="TOKEN", complete=_nobody, current_usage=lambda: spent, final_usage=lambda: spent
    )


def _nobody(_: ChatRequest) -> Reply:
    raise AssertionError("a command-line agent asks by itself")


def test_the_pieces_of_a_message_are_one_live_line(play: Play) -> None:
    lines: list[str] = []
    result = play(GOOD, lines=lines)
    assert (result.status, result.error, result.output) == ("success", None, "Fixed.")
    assert (result.turns, lines) == (2, ["Fixed."])


def test_the_agent_is_given_memory_prompt_and_workspace(
    play: Play, sandbox: ScriptedSandbox
) -> None:
    play(
        "answer({'protocolVersion': 1}); made = hear(); say({'id': made['id'], 'result': "
        "{'sessionId': 's1'}}); asked = hear(); "
        "open('heard', 'w').write(json.dumps([made, asked])); end()"
    )
    made, asked = json.loads(sandbox.read_file("heard"))
    assert made["params"] == {"cwd": sandbox.work_dir, "mcpServers": []}
    assert [block["text"] for block in asked["params"]["prompt"]] == ["SYSTEM", "PROMPT"]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("", "opencode ended without an answer (exit 0)"),
        ("begin(); sys.exit('oh dear')", "opencode ended without an answer (exit 1, oh dear)"),
        ("begin(); asked = hear(); end('refusal')", "the model refused to continue"),
        ("begin(); asked = hear(); end('max_tokens')", "the model's answer was cut off"),
        ("begin(); asked = hear(); end('whatever')", "opencode answered what is no ACP"),
        ("answer('what?')", "opencode answered what is no ACP"),
        ("answer({'protocolVersion': 1}); answer(None)", "opencode answered what is no ACP"),
        (
            "say({'id': hear()['id'], 'error': {'code': 1, 'message': 'no', 'data': {'x': 1}}})",
            'opencode failed: no {"x": 1}',
        ),
        ("hear(); print('{half'); print('[1]')", "2 lines were not JSON, the last one '[1]'"),
    ],
)
def test_a_failure_has_a_reason(play: Play, script: str, told: str) -> None:
    result = play(script)
    assert result.status == "failure"
    assert told in str(result.error)
    assert str(result.error).endswith("; spent 2 turns, 107 tokens, $0.2500")


def test_an_agent_may_fail_although_it_ends_its_turn(play: Play) -> None:
    meta = {"codex": {"threadStatus": {"type": "systemError"}}}
    script = (
        f"begin(); asked = hear(); update(sessionUpdate='session_info_update', _meta={meta})\n"
        "text('It is too long.'); end()"
    )
    assert play(script).status == "success"  # opencode has no such sign
    named = script.replace("begin();", "begin(); answer({'stopReason': 'end_turn'});")
    assert str(play(named, name="codex").error).startswith("codex failed: It is too long. (exit 0")


def test_messages_that_nobody_asked_for_change_nothing(play: Play) -> None:
    odd = (
        "say({'id': 7, 'result': {}}); say({'id': [], 'error': 'x'}); say({'id': True}); "
        "say({'method': 3}); say({'method': 'session/update'}); "
        "update(sessionUpdate='from_the_future'); update(sessionUpdate='tool_call_update'); "
        "begin(); asked = hear(); text('Fixed.'); say({'id': '', 'result': {}}); "
        "say({'id': 'harness-2', 'result': {}}); end()"
    )
    assert (play(odd).status, play(odd).output) == ("success", "Fixed.")


def test_a_permission_is_given_once_and_other_requests_are_refused(
    play: Play, sandbox: ScriptedSandbox
) -> None:
    ask = (
        "def ask(method, params): say({'id': 'q', 'method': method, 'params': params}); "
        "return heard.append(hear())\n"
        "def permit(*kinds): ask('session/request_permission', {'sessionId': 's1', 'toolCall': "
        "{'toolCallId': 'c'}, 'options': [{'optionId': k, 'name': k, 'kind': k} for k in kinds]})\n"
        "heard = []; begin(); asked = hear()\n"
        "permit('allow_always', 'allow_once'); permit('reject_once'); permit('fly')\n"
        "ask('fs/read_text_file', {'sessionId': 's1', 'path': '/etc/passwd'})\n"
        "open('heard', 'w').write(json.dumps(heard)); end()"
    )
    assert play(ask).status == "success"
    once, rejected, malformed, refused = json.loads(sandbox.read_file("heard"))
    assert once["result"]["outcome"] == {"outcome": "selected", "optionId": "allow_once"}
    assert rejected["result"]["outcome"] == {"outcome": "cancelled"}
    assert malformed["error"]["code"] == -32602
    assert refused["error"]["code"] == -32601


def test_each_call_gives_one_live_line(play: Play) -> None:
    lines: list[str] = []
    play(
        "begin(); asked = hear()\n"
        "text('Look.')\n"
        "update(sessionUpdate='tool_call', toolCallId='c', title='bash', rawInput={})\n"
        "update(sessionUpdate='tool_call_update', toolCallId='c', title='bash', "
        "status='in_progress', rawInput={'command': 'ls'})\n"
        "update(sessionUpdate='tool_call', toolCallId='e', title='shell · pwd', "
        "rawInput={'command': 'pwd'})\n"
        "update(sessionUpdate='tool_call_update', toolCallId='e', status='completed')\n"
        "update(sessionUpdate='tool_call', toolCallId='d', title='denied', rawInput={})\n"
        "update(sessionUpdate='tool_call_update', toolCallId='c', status='failed')\n"
        "update(sessionUpdate='tool_call_update', toolCallId='d', status='completed')\n"
        "end()",
        lines=lines,
    )
    assert [line.rpartition(" · ")[0] or line for line in lines] == [
        "Look.",
        "shell pwd · ok",
        "bash ls · error",
        "denied: a call",
    ]


@pytest.mark.parametrize(
    ("can_load", "heard"),
    [
        (True, ["session/load", "You were interrupted"]),
        (False, ["session/new", "PROMPT"]),
    ],
)
def test_a_conversation_is_loaded_by_an_agent_that_can(
    play: Play, sandbox: ScriptedSandbox, can_load: bool, heard: list[str]
) -> None:
    script = (
        f"answer({{'protocolVersion': 1, 'agentCapabilities': {{'loadSession': {can_load}}}}})\n"
        "opened = hear(); text('Of the past.'); say({'id': opened['id'], 'result': "
        "{'sessionId': 's2'}})\n"
        "asked = hear(); open('heard', 'w').write(json.dumps([opened, asked])); end()"
    )
    result = play(script, task=replace(TASK, conversation=Conversation(session="s0")))
    assert (result.status, result.output) == ("success", "")
    opened, asked = json.loads(sandbox.read_file("heard"))
    assert opened["method"] == heard[0]
    assert opened["params"].get("sessionId") == ("s0" if can_load else None)
    assert heard[1] in str(asked["params"]["prompt"])


def test_an_agent_that_does_not_exit_is_killed_and_has_succeeded(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_process, "EXIT_TIMEOUT_S", 0.1)
    result = play(GOOD + "; import time; time.sleep(900)")
    assert (result.status, result.output) == ("success", "Fixed.")


def test_no_prompt_and_no_token_is_in_the_argv() -> None:
    context = LaunchContext(task=TASK, token="TOKEN", url="http://x", home="/h", session="S")
    launch = acp_program("opencode").launch(context)
    assert launch.argv == ("opencode", "acp")
    assert '"apiKey": "TOKEN"' in launch.files["/h/opencode.json"]
    assert json.loads(launch.files["/h/opencode.json"])["model"] == "gateway/model"


def test_a_flood_of_text_is_not_kept_in_memory(play: Play) -> None:
    result = play(
        "begin(); asked = hear()\nfor _ in range(60): text('x' * 1_000_000)\nend()",
        task=replace(TASK, limits=AgentLimits()),
    )
    assert result.status == "success"
    assert len(result.output) < 300_000
