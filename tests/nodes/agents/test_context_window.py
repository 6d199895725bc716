"""Work that is longer than the model's context."""

import json
import re
from collections.abc import Callable

import pytest

from contracts.chat import ChatRequest, Message, Reply, Usage
from contracts.tool import ToolCall
from nodes.agents.context_window import shortened
from nodes.agents.native import native_agent
from nodes.agents.types import AgentLimits, AgentTask, Conversation
from sandbox.scripted import ScriptedSandbox

CONTEXT = 8_000
STEPS = 60
OUTPUT = 6_000
"""Characters that each step writes: all steps write more than ten times the context."""


def tokens_of(request: ChatRequest, characters_per_token: float = 4) -> int:
    texts = [m.content + "".join(c.arguments for c in m.tool_calls) for m in request.messages]
    texts += [json.dumps(dict(tool.parameters)) + tool.description for tool in request.tools]
    return round(sum(map(len, texts)) / characters_per_token)


class ForgetfulModel:
    """Knows only what is in the request, as a model does: it does the next step of its plan.

    It refuses a request that is longer than its context.
    """

    def __init__(self, *, characters_per_token: float = 4, counts: bool = True) -> None:
        self.characters_per_token = characters_per_token
        self.counts = counts
        self.sizes: list[int] = []
        self.done: list[int] = []
        self.overflows = 0

    def __call__(self, request: ChatRequest) -> Reply:
        size = tokens_of(request, self.characters_per_token)
        if size > CONTEXT:
            self.overflows += 1
            return Reply(message=Message(role="assistant"), stop_reason="context_window")
        self.sizes.append(size)
        usage = Usage(input=size) if self.counts else Usage()
        return Reply(message=self._next(request), usage=usage)

    def _next(self, request: ChatRequest) -> Message:
        plans = [
            found for m in request.messages if (found := re.findall(r"\[(.)\] step", m.content))
        ]
        done = plans[-1].count("x") if plans else 0
        if done == STEPS:
            return Message(role="assistant", content="All steps are done.")
        self.done.append(done + 1)
        plan = "\n".join(
            f"- [{'x' if number <= done + 1 else ' '}] step {number}"
            for number in range(1, STEPS + 1)
        )
        command = f"echo {done + 1} >> steps; head -c {OUTPUT} /dev/zero | tr '\\0' '{done % 10}'"
        call = ToolCall(id=f"c{done}", name="bash", arguments=json.dumps({"command": command}))
        return Message(role="assistant", content=plan, tool_calls=(call,))


def work(
    model: Callable[[ChatRequest], Reply], sandbox: ScriptedSandbox, context: int | None
) -> str:
    task = AgentTask(node="fix", prompt="Do all steps.", model="m", limits=AgentLimits(turns=200))
    result = native_agent(model, context_tokens=context)(task, sandbox)
    assert result.error is None
    return result.output


@pytest.mark.parametrize("characters_per_token", [4, 2.5])
def test_work_of_ten_contexts_is_done_by_its_plan(
    sandbox: ScriptedSandbox, characters_per_token: float
) -> None:
    model = ForgetfulModel(characters_per_token=characters_per_token)
    assert work(model, sandbox, CONTEXT) == "All steps are done."
    assert sandbox.read_file("steps").decode().split() == [str(n) for n in range(1, STEPS + 1)]
    assert STEPS * OUTPUT / characters_per_token > 10 * CONTEXT
    assert (max(model.sizes) <= CONTEXT, model.overflows) == (True, 0)


def test_a_context_that_is_smaller_than_expected_is_learned(sandbox: ScriptedSandbox) -> None:
    model = ForgetfulModel(counts=False)
    assert work(model, sandbox, None) == "All steps are done."
    assert model.done == list(range(1, STEPS + 1))
    assert 0 < model.overflows < 12  # not one for each step


def tool_turn(number: int, result: str, text: str = "") -> list[Message]:
    call = ToolCall(id=str(number), name="bash", arguments=f'{{"command": "echo {number}"}}')
    return [
        Message(role="assistant", content=text, tool_calls=(call,)),
        Message(role="tool", content=result, tool_call_id=str(number)),
    ]


HEAD = [Message(role="system", content="You work."), Message(role="user", content="Do it.")]


def test_old_results_go_first() -> None:
    turns = [tool_turn(n, "x" * 1000, text=f"thought {n}") for n in range(4)]
    kept = shortened([*HEAD, *(m for turn in turns for m in turn)], 2500)
    assert [m.content for m in kept if m.role == "assistant"] == [f"thought {n}" for n in range(4)]
    results = [m.content for m in kept if m.role == "tool"]
    assert [result == "x" * 1000 for result in results] == [False, False, True, True]
    assert "call the tool again" in results[0]


def test_whole_turns_go_but_not_the_words_of_the_user_and_the_plan() -> None:
    told = Message(role="user", content="The checks failed: mend them.")
    messages = [*HEAD, *tool_turn(0, "r", "My plan:\n- [x] read\n1. [ ] mend\nLet me see."), told]
    for number in range(1, 50):
        messages += tool_turn(number, "r", text="y" * 100)
    once = shortened(messages, 1500)
    assert once[:3] == [*HEAD, told]
    assert once[3].content.endswith("Your plan was:\n- [x] read\n1. [ ] mend")
    assert once[4].role == "assistant"
    assert once[-2:] == messages[-2:]
    for number in range(50, 99):
        once += tool_turn(number, "r", text="y" * 100)
    assert shortened(once, 1500)[:4] == [*HEAD, told, once[3]]


def test_a_newer_plan_replaces_the_old_one() -> None:
    messages = [*HEAD, *tool_turn(0, "r", "- [ ] old"), *tool_turn(1, "y" * 900, "- [ ] new")]
    kept = shortened([*messages, *tool_turn(2, "r", "z" * 500)], 650)
    assert "- [ ] new" in kept[2].content
    assert "- [ ] old" not in "".join(m.content for m in kept)


def test_no_call_loses_its_result() -> None:
    messages = [*HEAD, *(m for n in range(30) for m in tool_turn(n, "x" * 200, "text"))]
    for room in range(0, 9000, 100):
        kept = shortened(messages, room)
        calls = [call.id for m in kept for call in m.tool_calls]
        assert calls == [m.tool_call_id for m in kept if m.role == "tool"]
        assert calls[-1] == "29"


def test_results_of_one_turn_that_fill_the_context_are_shortened() -> None:
    turn = [
        Message(
            role="assistant",
            tool_calls=tuple(ToolCall(id=str(n), name="bash", arguments="{}") for n in range(5)),
        ),
        *(Message(role="tool", content="x" * 30_000, tool_call_id=str(n)) for n in range(5)),
    ]
    kept = shortened([*HEAD, *turn], 20_000)
    assert sum(len(m.content) for m in kept) < 21_000
    assert len(kept) == len(HEAD) + 6


def test_a_task_longer_than_the_context_is_a_failure(sandbox: ScriptedSandbox) -> None:
    task = AgentTask(node="fix", prompt="y" * 8 * CONTEXT, model="m")
    result = native_agent(ForgetfulModel(), context_tokens=CONTEXT)(task, sandbox)
    assert result.error == "the conversation has grown too long for 'm'"


def test_a_saved_conversation_is_shortened_when_it_goes_on(sandbox: ScriptedSandbox) -> None:
    long = [*HEAD, *(m for n in range(30) for m in tool_turn(n, "x" * 5000))]
    asked: list[ChatRequest] = []

    def answer(request: ChatRequest) -> Reply:
        asked.append(request)
        return Reply(message=Message(role="assistant", content="Done."))

    task = AgentTask(
        node="fix", prompt="Do it.", model="m", conversation=Conversation(messages=tuple(long))
    )
    assert native_agent(answer, context_tokens=CONTEXT)(task, sandbox).output == "Done."
    assert tokens_of(asked[0]) < CONTEXT
