import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Complete, Message, Reply, Usage
from contracts.errors import BlueprintInvalid, ModelUnavailable, SandboxLost
from contracts.run import DecisionCounts
from contracts.sandbox import Command, ExecResult, OnOutput
from contracts.tool import Denied
from nodes.agents.native import native_agent
from nodes.agents.types import AgentLimits, AgentResult, AgentTask
from sandbox.scripted import ScriptedSandbox
from tests.support.direct import scripted_complete
from tests.support.waiting import growing_limits

BUG = "def add(a, b):\n    return a - b\n"


def calls(
    *tools: tuple[str, object], text: str = "", usage: dict[str, float] | None = None
) -> dict[str, object]:
    """One assistant reply that calls tools."""
    made = [{"function": {"name": name, "arguments": given}} for name, given in tools]
    return {"content": text, "tool_calls": made, "usage": usage or {}}


def bash(command: str, text: str = "", usage: dict[str, float] | None = None) -> dict[str, object]:
    return calls(("bash", {"command": command}), text=text, usage=usage)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


class Play:
    """Runs the native agent on scripted replies and keeps what it said."""

    def __init__(self, script: Path, sandbox: ScriptedSandbox) -> None:
        self.script = script
        self.sandbox = sandbox
        self.requests: list[ChatRequest] = []
        self.lines: list[str] = []

    def __call__(
        self,
        *replies: object,
        limits: AgentLimits | None = None,
        allowed: list[str] | None = None,
        system: str = "",
    ) -> AgentResult:
        self.script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        agent = native_agent(self.kept(scripted_complete(self.script)), on_line=self.lines.append)
        return agent(
            AgentTask(
                node="fix",
                prompt="Make the tests pass.",
                model="scripted/x",
                system=system,
                allowed_tools=allowed,
                limits=limits or AgentLimits(),
            ),
            self.sandbox,
        )

    def kept(self, complete: Complete) -> Complete:
        def call(request: ChatRequest) -> Reply:
            self.requests.append(request)
            return complete(request)

        return call

    @property
    def told(self) -> list[str]:
        """What the model was last told by tools."""
        return [m.content for m in self.requests[-1].messages if m.role == "tool"]


@pytest.fixture
def play(script: Path, sandbox: ScriptedSandbox) -> Play:
    return Play(script, sandbox)


def test_the_agent_fixes_a_bug(play: Play, work_dir: Path) -> None:
    (work_dir / "calc.py").write_text(BUG)
    check = f"{sys.executable} -c 'import calc; assert calc.add(1, 2) == 3'"
    result = play(
        bash(check, text="Let me see it fail."),
        calls(("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"})),
        bash(check),
        {"content": "Fixed: add() subtracted."},
    )
    assert result.status == "success"
    assert result.output == "Fixed: add() subtracted."
    assert (work_dir / "calc.py").read_text() == BUG.replace("-", "+")
    assert result.turns == 4
    assert result.tool_calls == {"bash": 2, "edit_file": 1}
    assert result.decisions == DecisionCounts(allowed=3, denied=0)


def test_the_first_messages_name_workspace_tools_and_task(play: Play, work_dir: Path) -> None:
    play({"content": "ok"}, allowed=["read", "shell(git diff*)"], system="Be kind.")
    system, user = play.requests[0].messages
    assert str(work_dir) in system.content
    assert "Your tools: bash, read_file. Allowed here: read, shell(git diff*)." in system.content
    assert system.content.rstrip().endswith("Be kind.")
    assert user.content == "Make the tests pass."
    assert [tool.name for tool in play.requests[0].tools] == ["bash", "read_file"]


def test_results_have_the_order_of_the_calls(play: Play) -> None:
    play(
        calls(("bash", {"command": "echo 1 > f"}), ("read_file", {"path": "f"})), {"content": "ok"}
    )
    assert play.told == ["exit 0\n(no output)", "1\t1"]


def test_live_lines_are_short_and_have_no_escapes(play: Play) -> None:
    play(
        bash("exit 1", text="\x1b[31mLook\x1b[0m\nmore"),
        bash("echo " + "x" * 500),
        {"content": "ok"},
    )
    assert play.lines[0] == "Look"
    assert play.lines[1].startswith("bash exit 1 · exit 1 · ")
    assert len(play.lines[2]) < 150


def test_the_model_gets_tool_errors(play: Play) -> None:
    result = play(calls(("read_file", {"path": "no.py"})), {"content": "not there"})
    assert result.status == "success"
    assert play.told == ["error: wanted to read 'no.py': No such file or directory"]


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (AgentLimits(turns=3), "turn limit of 3 reached: spent 3 turns, 330 tokens, $0.3000"),
        (AgentLimits(tokens=200), "token limit of 200 reached: spent 2 turns, 220 tokens"),
        (AgentLimits(cost_usd=0.15), "budget exceeded: $0.2000 of $0.15: spent 2 turns"),
    ],
)
def test_a_reached_limit_is_a_failure_that_names_it(
    play: Play, limits: AgentLimits, named: str
) -> None:
    usage = {"input": 100, "output": 10, "cost_usd": 0.1}
    result = play(*(bash(f"echo {n}", usage=usage) for n in range(9)), limits=limits)
    assert result.status == "failure"
    assert result.error is not None
    assert result.error.startswith(named)
    assert result.usage.input == 100 * result.turns
    assert result.usage.cost_usd == pytest.approx(0.1 * result.turns)


def test_the_time_limit_stops_a_command_and_the_agent(play: Play) -> None:
    for limit_s in growing_limits(0.5):
        result = play(bash("sleep 900"), bash("echo never"), limits=AgentLimits(time_s=limit_s))
        if result.turns:
            break
    assert str(result.error).startswith(f"time limit of {limit_s:g} s reached: spent 1 turns")


def test_an_answer_that_reaches_the_limit_is_still_an_answer(play: Play) -> None:
    result = play({"content": "done", "usage": {"input": 500}}, limits=AgentLimits(tokens=100))
    assert result.status == "success"


def test_an_empty_reply_is_reminded_once(play: Play) -> None:
    assert play({"content": ""}, {"content": "done"}).status == "success"
    assert play.requests[-1].messages[-1].content.startswith("Your answer was empty")


def test_two_empty_replies_are_a_failure(play: Play) -> None:
    result = play({"content": " \n"}, {"content": None, "usage": {"input": 7}})
    assert result.error is not None
    assert result.error.startswith("the model gave an empty answer twice")
    assert (result.turns, result.usage) == (2, Usage(input=7))


def test_a_truncated_answer_is_continued(play: Play) -> None:
    result = play({"content": "It is beca", "stop_reason": "length"}, {"content": "short"})
    assert (result.status, result.output) == ("success", "short")


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
@pytest.mark.parametrize("said", [{"content": "It is beca"}, {"content": ""}, calls(("bash", {}))])
def test_a_filtered_answer_is_a_failure(play: Play, reason: str, said: dict[str, object]) -> None:
    result = play({**said, "stop_reason": reason}, {"content": "never asked for"})
    why = f"the model refused, or its answer was filtered ({reason})"
    assert (result.status, result.error, result.turns) == ("failure", why, 1)
    assert result.output == said["content"]


def test_invalid_calls_are_reported_and_stored_in_a_valid_form(play: Play) -> None:
    result = play(calls(("bash", "{oops"), ("fly away!", {})), {"content": "sorry"})
    assert result.status == "success"
    assert play.told[0].startswith("error: bad arguments for bash: Invalid JSON")
    assert play.told[1].startswith("error: no tool 'fly away!'; there are bash")
    kept = play.requests[-1].messages[2].tool_calls
    assert [(c.name, c.arguments) for c in kept] == [("bash", "{}"), ("fly_away_", "{}")]


def test_an_integer_of_5000_digits_is_an_invalid_call(play: Play) -> None:
    result = play(calls(("bash", f'{{"command": {"1" * 5000}}}')), {"content": "sorry"})
    assert result.status == "success"
    assert play.told[0].startswith("error: bad arguments for bash")
    assert play.requests[-1].messages[-2].tool_calls[0].arguments == "{}"


def test_five_invalid_turns_in_a_row_stop_the_agent(play: Play) -> None:
    result = play(*(calls(("bash", "{" * n)) for n in range(1, 9)))
    assert result.error is not None
    assert result.error.startswith("5 turns in a row were invalid; the last one: error:")
    assert result.turns == 5


def test_a_valid_turn_resets_the_count_of_invalid_turns(play: Play) -> None:
    nonsense = [calls(("bash", "{" * n)) for n in range(1, 9)]
    result = play(*nonsense[:4], bash("true"), *nonsense[4:], {"content": "done"})
    assert result.status == "success"


def test_five_equal_calls_with_equal_results_stop_the_agent(play: Play) -> None:
    result = play(*(bash("echo took $RANDOM ms") for _ in range(9)))
    assert result.error is not None
    assert result.error.startswith("the model repeats itself: bash")
    assert result.turns == 5


def test_equal_calls_with_new_results_continue(play: Play) -> None:
    assert play(*(bash("echo x >> f; cat f") for _ in range(9)), {"content": "ok"}).turns == 10


def test_messages_of_ten_megabytes_are_truncated(play: Play, work_dir: Path) -> None:
    huge = "x" * 10_000_000
    result = play(
        calls(("write_file", {"path": "f", "content": huge}), ("y" * 1_000_000, {}), text=huge),
        {"content": huge},
    )
    assert result.status == "success"
    assert len(result.output) < 300_000
    assert not (work_dir / "f").exists()
    assert sum(len(m.content) for m in play.requests[-1].messages) < 200_000
    assert "too many" in play.told[0]


def test_a_long_output_can_be_read_whole(play: Play) -> None:
    play(bash("seq 100000"), {"content": "ok"})
    shown = play.told[0]
    assert shown.startswith("exit 0\n1\n2\n")
    assert "characters left out" in shown
    assert len(shown) < 31_000
    found = re.search(r"\(all 100001 lines are in (\S+): read or search that file\)$", shown)
    assert found is not None
    play(calls(("read_file", {"path": found[1], "offset": 50_000, "limit": 2})), {"content": "ok"})
    assert play.told[0].startswith("50000\t49999\n50001\t50000\n")


def test_an_output_that_cannot_be_kept_is_shown_shortened(
    play: Play, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.agents.native._OUTPUTS", str(work_dir / "file"))
    (work_dir / "file").write_text("not a folder")
    assert play(bash("seq 100000"), {"content": "ok"}).status == "success"
    assert "characters left out" in play.told[0]
    assert "(the whole output could not be kept: " in play.told[0]


def test_a_full_context_window_is_a_failure(sandbox: ScriptedSandbox) -> None:
    full = Reply(message=Message(role="assistant"), stop_reason="context_window")
    result = native_agent(lambda _: full)(AgentTask(node="n", prompt="p", model="m"), sandbox)
    assert result.error == "the conversation has grown too long for 'm'"


def test_a_denied_call_is_reported_and_not_run(play: Play, work_dir: Path) -> None:
    result = play(bash("touch pwned"), {"content": "ok"}, allowed=["read"])
    assert play.told == ["denied: bash is not allowed here; allowed: read"]
    assert not (work_dir / "pwned").exists()
    assert result.decisions == DecisionCounts(denied=1)
    assert play.lines == ["bash touch pwned · denied · 0.0 s"]


def test_the_guard_can_deny_a_call_that_the_node_allows(
    script: Path, sandbox: ScriptedSandbox, work_dir: Path
) -> None:
    script.write_text(json.dumps(bash("touch pwned")) + '\n{"content": "ok"}\n')
    agent = native_agent(scripted_complete(script), guard=lambda _: Denied(reason="tainted"))
    result = agent(AgentTask(node="n", prompt="p", model="m"), sandbox)
    assert result.decisions == DecisionCounts(denied=1)
    assert not (work_dir / "pwned").exists()


def test_unknown_allowed_tools_are_refused_before_the_first_model_call(play: Play) -> None:
    with pytest.raises(BlueprintInvalid, match="unknown allowed tool 'fly'"):
        play({"content": "ok"}, allowed=["fly"])
    assert play.requests == []


def test_an_unavailable_model_is_an_outage(play: Play) -> None:
    with pytest.raises(ModelUnavailable, match="no reply left"):
        play(bash("true"))


def test_a_model_call_ended_by_the_time_limit_is_not_an_outage(sandbox: ScriptedSandbox) -> None:
    now: Iterator[float] = iter([0.0, 0.0, 0.0, *[10.0] * 99])

    def slow(_: ChatRequest) -> Reply:
        raise ModelUnavailable("did not answer in time")

    agent = native_agent(slow, clock=lambda: next(now))
    task = AgentTask(node="n", prompt="p", model="m", limits=AgentLimits(time_s=5))
    assert str(agent(task, sandbox).error).startswith("time limit of 5 s reached")


class LostSandbox(ScriptedSandbox):
    def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        raise SandboxLost("gone")


def test_a_lost_sandbox_is_an_outage(script: Path) -> None:
    with pytest.raises(SandboxLost):
        Play(script, LostSandbox())(bash("true"), {"content": "ok"})


def test_as_node_result_keeps_output_and_usage(play: Play) -> None:
    result = play({"content": "done", "usage": {"input": 7}}).as_node_result()
    assert (result.status, result.output, result.turns) == ("success", "done", 1)
    assert result.usage == Usage(input=7)
