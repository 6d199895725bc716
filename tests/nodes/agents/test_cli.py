"""Command-line agents that misbehave: small programs in their place, in a scripted sandbox."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from contracts.chat import ChatRequest, Reply, Usage
from contracts.errors import BlueprintInvalid, ModelUnavailable, SandboxFileMissing
from contracts.model_access import AgentUsage, ModelAccess, TokenSpec
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.claude_code import CLAUDE_CODE
from nodes.agents.cli import AgentProgram, LaunchContext, cli_agent
from nodes.agents.pi import PI
from nodes.agents.types import AgentLimits, AgentResult, AgentTask, Conversation
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import LONG_S, growing_limits

RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "Fixed."}
TASK = AgentTask(node="n", prompt="p", model="m")
SPENT = AgentUsage(turns=2, usage=Usage(input=100, output=7, cost_usd=0.25))


@pytest.fixture
def play(sandbox: ScriptedSandbox) -> Callable[..., AgentResult]:
    """Runs a shell script in the place of an agent's program."""

    def run(
        cli: AgentProgram,
        script: str,
        *,
        spent: AgentUsage = SPENT,
        limits: AgentLimits | None = None,
        first_output_s: float = LONG_S,
        lines: list[str] | None = None,
        task: AgentTask = TASK,
    ) -> AgentResult:
        def launch(order: LaunchContext) -> LaunchCommand:
            real = cli.launch(order)
            return replace(real, argv=("sh", "-c", script))

        @contextmanager
        def open_gate(_: TokenSpec) -> Iterator[ModelAccess]:
            yield ModelAccess(
                token="t", complete=_nobody, current_usage=lambda: spent, final_usage=lambda: spent
            )

        told = lines if lines is not None else []
        agent = cli_agent(
            replace(cli, launch=launch),
            open_gate,
            on_line=told.append,
            first_output_s=first_output_s,
        )
        return agent(replace(task, limits=limits or AgentLimits()), sandbox)

    return run


def _nobody(_: ChatRequest) -> Reply:
    raise AssertionError("a command-line agent asks by itself")


def say(*events: object) -> str:
    """A line of shell that prints events."""
    return "cat <<'EOF'\n" + "".join(json.dumps(event) + "\n" for event in events) + "EOF\n"


def pi_end(reason: str, **more: object) -> dict[str, object]:
    content = [{"type": "text", "text": "Fixed."}]
    message = {"role": "assistant", "content": content, "stopReason": reason, **more}
    return {"type": "message_end", "message": message}


def test_another_node_can_go_on_with_the_conversation_of_one_that_finished(
    play: Callable[..., AgentResult],
) -> None:
    kept = '"$CLAUDE_CONFIG_DIR/kept"'
    first = AgentTask(node="work", prompt="p", model="m", may_continue=True)
    done = play(
        CLAUDE_CODE, f'mkdir -p "$CLAUDE_CONFIG_DIR"; echo one >{kept}\n{say(RESULT)}', task=first
    )
    assert done.conversation is not None
    later = AgentTask(node="round 1", prompt="p", model="m", conversation=done.conversation)
    again = play(CLAUDE_CODE, f"cat {kept} || exit 1\n{say(RESULT)}", task=later)
    assert (again.status, again.error) == ("success", None)
    assert again.conversation is None


@pytest.mark.parametrize(("cli", "event"), [(CLAUDE_CODE, RESULT), (PI, pi_end("stop"))])
def test_a_success_event_is_a_success(
    play: Callable[..., AgentResult], cli: AgentProgram, event: object
) -> None:
    result = play(cli, say(event))
    assert (result.status, result.error) == ("success", None)
    assert (result.turns, result.usage) == (2, SPENT.usage)


@pytest.mark.parametrize(
    ("cli", "script", "told"),
    [
        (CLAUDE_CODE, "exit 0", "claude ended without a result (exit 0)"),
        (PI, "exit 0", "pi ended without an answer from the model (exit 0)"),
        (CLAUDE_CODE, "echo oh dear >&2; exit 3", "without a result (exit 3, oh dear)"),
        (CLAUDE_CODE, "echo '{garbage'; echo '[1]'", "2 lines were not JSON, the last one '[1]'"),
        (CLAUDE_CODE, say({**RESULT, "is_error": True}), "claude failed: error: Fixed."),
        (
            CLAUDE_CODE,
            say({"type": "result", "subtype": "error_max_turns", "is_error": True}),
            "turn limit reached (exit 0)",
        ),
        (PI, say(pi_end("error", errorMessage="400 no")), "pi failed: error: 400 no (exit 0)"),
        (PI, say(pi_end("length")), "pi failed: length: Fixed."),
        (PI, "kill -9 $$", "without an answer from the model (exit 137)"),
        (PI, "exec no-such-program", "exit 127"),
    ],
)
def test_a_failure_has_a_reason_and_the_usage(
    play: Callable[..., AgentResult], cli: AgentProgram, script: str, told: str
) -> None:
    result = play(cli, script)
    assert result.status == "failure"
    assert told in str(result.error)
    assert str(result.error).endswith("; spent 2 turns, 107 tokens, $0.2500")
    assert result.usage == SPENT.usage


def test_lines_that_are_not_json_are_ignored(play: Callable[..., AgentResult]) -> None:
    script = "echo '{half'; printf 'no newline\\n\\n\\xff\\xfe\\n'; " + say(RESULT)
    assert play(CLAUDE_CODE, script).status == "success"


def test_a_line_of_40_megabytes_is_ignored(play: Callable[..., AgentResult]) -> None:
    script = "head -c 40000000 /dev/zero | tr '\\0' x; echo; " + say(RESULT)
    assert play(CLAUDE_CODE, script).status == "success"


@pytest.mark.parametrize("call", ["a\0b", "\ud800"])
def test_a_call_id_that_cannot_be_searched_is_accepted(
    play: Callable[..., AgentResult], sandbox: ScriptedSandbox, call: str
) -> None:
    done = {"type": "tool_result", "tool_use_id": call}
    events = [{"type": "user", "message": {"content": [done]}}, RESULT]
    sandbox.write_file("claude", "".join(json.dumps(event) + "\n" for event in events).encode())
    assert play(CLAUDE_CODE, "cat claude").status == "success"
    events = [{"type": "tool_execution_end", "toolCallId": call}, pi_end("stop")]
    sandbox.write_file("pi", "".join(json.dumps(event) + "\n" for event in events).encode())
    assert play(PI, "cat pi").status == "success"


def test_an_agent_without_output_is_killed(
    play: Callable[..., AgentResult], sandbox: ScriptedSandbox
) -> None:
    result = play(CLAUDE_CODE, "sleep 60; touch alive", first_output_s=2)
    assert "it printed nothing for 2 s and was killed" in str(result.error)
    with pytest.raises(SandboxFileMissing):
        sandbox.read_file("alive")


def test_an_agent_is_killed_at_its_time_limit_and_its_output_is_kept(
    play: Callable[..., AgentResult],
) -> None:
    text = {"type": "text", "text": "I wait."}
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "sleep 9"}}
    said = {"type": "assistant", "message": {"content": [text, call]}}
    for limit_s in growing_limits(1):
        result = play(CLAUDE_CODE, say(said) + "sleep 900", limits=AgentLimits(time_s=limit_s))
        if result.output == "I wait.":
            break
    assert str(result.error).startswith(
        f"time limit of {limit_s:g} s reached: it was killed; "
        "under way: Bash sleep 9; spent 2 turns"
    )


def test_a_limit_of_the_gateway_is_the_reason(play: Callable[..., AgentResult]) -> None:
    budget = replace(SPENT, stopped="budget exceeded: $0.2500 of $0.1, 107 tokens")
    result = play(CLAUDE_CODE, say({**RESULT, "is_error": True}), spent=budget)
    assert str(result.error).startswith("budget exceeded: $0.2500 of $0.1, 107 tokens")


@pytest.mark.parametrize("script", [say(pi_end("error")), say(pi_end("toolUse")) + "sleep 60"])
def test_an_outage_is_raised_with_the_usage(play: Callable[..., AgentResult], script: str) -> None:
    outage = replace(SPENT, outage="the key for 'm' was refused")
    told = r"^the key for 'm' was refused; spent 2 turns, 107 tokens, \$0\.2500$"
    with pytest.raises(ModelUnavailable, match=told):
        play(PI, script, spent=outage, limits=AgentLimits(time_s=1))


def test_a_finished_agent_ignores_an_earlier_outage(play: Callable[..., AgentResult]) -> None:
    assert play(PI, say(pi_end("stop")), spent=replace(SPENT, outage="x")).status == "success"


def test_an_exceeded_budget_is_not_an_outage(play: Callable[..., AgentResult]) -> None:
    both = replace(SPENT, stopped="budget exceeded: all of it", outage="slow down")
    result = play(PI, say(pi_end("error")), spent=both)
    assert str(result.error).startswith("budget exceeded: all of it; spent 2 turns")


def test_each_call_gives_one_live_line(play: Callable[..., AgentResult]) -> None:
    lines: list[str] = []
    use = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "/a.py"}}
    done = {"type": "tool_result", "tool_use_id": "c", "is_error": True}
    refusal = {"call": "Bash", "reason": "not here"}
    denied = {"type": "tool_use", "id": "d", "name": "denied", "input": refusal}
    play(
        CLAUDE_CODE,
        say(
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "I \x1b[1m"}]}},
            {"type": "assistant", "message": {"content": [use, denied]}},
            {"type": "user", "message": {"content": [done]}},
            {"type": "user", "message": {"content": [{**done, "tool_use_id": "d"}]}},
            RESULT,
        ),
        lines=lines,
    )
    said, read, refused = lines
    assert read.startswith("Read /a.py · error · ")
    assert (said, refused) == ("I", "denied: Bash: not here")


def test_denials_by_claude_itself_are_counted(play: Callable[..., AgentResult]) -> None:
    result = play(CLAUDE_CODE, say({**RESULT, "permission_denials": [{"tool_name": "Bash"}]}))
    assert (result.status, result.decisions.denied) == ("success", 1)


@pytest.mark.parametrize("cli", [CLAUDE_CODE, PI])
def test_no_prompt_and_no_token_is_in_the_argv(cli: AgentProgram) -> None:
    task = AgentTask(
        node="n", prompt="PROMPT", system="SYSTEM", model="m", allowed_tools=["read", "shell(ls)"]
    )
    url = "http://127.0.0.1:4180"
    launch = cli.launch(LaunchContext(task=task, token="TOKEN", url=url, home="/h", session="S"))
    assert launch.stdin == "PROMPT"
    assert "SYSTEM" in launch.files.values()
    assert not any(word in " ".join(launch.argv) for word in ("PROMPT", "SYSTEM", "TOKEN"))
    tools = launch.argv[launch.argv.index("--tools") + 1]
    assert tools == {"claude-code": "Bash,Read", "pi": "bash,read"}[cli.name]


def test_unknown_allowed_tools_are_refused_before_the_start(
    sandbox: ScriptedSandbox,
) -> None:
    def never(_: TokenSpec) -> AbstractContextManager[ModelAccess]:
        raise AssertionError("opened")

    task = AgentTask(node="n", prompt="p", model="m", allowed_tools=["read(src/*)"])
    with pytest.raises(BlueprintInvalid, match="only shell takes a pattern"):
        cli_agent(PI, never)(task, sandbox)


def test_a_conversation_that_has_spent_nothing_yet_can_be_written_to_a_file() -> None:
    saved = TypeAdapter(Conversation).dump_python(Conversation(session="s"), mode="json")
    assert saved["spent"]["tool_calls"] == {}
