"""Tools from the host in the native agent's loop: offered, allowed, done, suggested."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.run import DecisionCounts
from contracts.tool import McpEndpoint, Tool, Toolbox, ToolCall
from nodes.agents.native import native_agent
from nodes.agents.types import AgentResult, AgentTask
from sandbox.scripted import ScriptedSandbox

SEARCH = Tool(name="playbook_search", description="Search.", parameters={"type": "object"})


class Shelf:
    """A toolbox that remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.prompts: list[str] = []

    def toolbox(self) -> Toolbox:
        return Toolbox(tools=(SEARCH,), run=self._run, prompt_section=self._suggest, serve=_no_door)

    def _run(self, call: ToolCall) -> str:
        self.calls.append(call)
        return '{"playbooks": []}'

    def _suggest(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return f"Suggested {len(self.prompts)}"


def _no_door(_: Toolbox) -> AbstractContextManager[McpEndpoint]:
    raise AssertionError("the native agent needs no door")


def work(
    shelf: Shelf, sandbox: ScriptedSandbox, allowed: Sequence[str] | None
) -> tuple[AgentResult, list[ChatRequest]]:
    asked: list[ChatRequest] = []
    call = ToolCall(id="c1", name="playbook_search", arguments='{"query": "keys"}')
    replies = iter(
        [Message(role="assistant", tool_calls=(call,)), Message(role="assistant", content="Done.")]
    )

    def complete(request: ChatRequest) -> Reply:
        asked.append(request)
        return Reply(message=next(replies))

    task = AgentTask(
        node="fix", prompt="rotate", model="m", allowed_tools=allowed, toolbox=shelf.toolbox()
    )
    return native_agent(complete)(task, sandbox), asked


@pytest.mark.parametrize("allowed", [None, ["read", "playbooks"]])
def test_a_host_tool_is_offered_and_run(
    sandbox: ScriptedSandbox, allowed: list[str] | None
) -> None:
    shelf = Shelf()
    result, asked = work(shelf, sandbox, allowed)
    assert [call.arguments for call in shelf.calls] == ['{"query": "keys"}']
    assert asked[1].messages[-1].content == '{"playbooks": []}'
    assert SEARCH in asked[0].tools
    assert result.decisions == DecisionCounts(allowed=1)
    assert dict(result.tool_calls) == {"playbook_search": 1}


def test_a_host_tool_that_the_node_does_not_allow_is_denied(
    sandbox: ScriptedSandbox,
) -> None:
    shelf = Shelf()
    result, asked = work(shelf, sandbox, ["read"])
    assert SEARCH not in asked[0].tools
    assert shelf.calls == []
    assert shelf.prompts == []
    assert asked[1].messages[-1].content.startswith("denied: ")
    assert result.decisions == DecisionCounts(denied=1)


def test_each_model_call_has_the_same_system_message_with_the_prompt_section(
    sandbox: ScriptedSandbox,
) -> None:
    shelf = Shelf()
    _, asked = work(shelf, sandbox, None)
    assert shelf.prompts == ["rotate"]
    first, second = (request.messages[0] for request in asked)
    assert first.content.endswith("Suggested 1\n")
    assert second == first


def test_a_conversation_that_goes_on_gets_the_section_of_its_new_prompt(
    sandbox: ScriptedSandbox,
) -> None:
    asked: list[ChatRequest] = []

    def complete(request: ChatRequest) -> Reply:
        asked.append(request)
        return Reply(message=Message(role="assistant", content="Done."))

    task = AgentTask(
        node="fix", prompt="rotate", model="m", toolbox=Shelf().toolbox(), may_continue=True
    )
    first = native_agent(complete)(task, sandbox)
    assert first.conversation is not None
    shelf = Shelf()
    again = replace(
        task,
        prompt="stretch",
        toolbox=shelf.toolbox(),
        conversation=replace(first.conversation, told="stretch"),
    )
    native_agent(complete)(again, sandbox)
    assert shelf.prompts == ["stretch"]
    assert [m.content for m in asked[1].messages[1:]] == ["rotate", "Done.", "stretch"]
    assert asked[1].messages[0].content.count("Suggested") == 1
