"""Agents that are command-line programs, run in the sandbox with a token of the gateway."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from uuid import uuid4

from contracts.errors import ModelUnavailable
from contracts.model_access import AgentUsage, ModelAccess, OpenModelAccess, describe_usage
from contracts.run import DecisionCounts
from contracts.sandbox import ExecResult, Sandbox
from nodes.agents.activity import AgentActivity
from nodes.agents.agent_process import (
    FIRST_OUTPUT_TIMEOUT_S,
    AgentProcess,
    EventParser,
    LaunchCommand,
)
from nodes.agents.allowed_tools import check_allowed_tools
from nodes.agents.conversation import Conversation
from nodes.agents.toolbox import ForwardedToolbox, forward_toolbox
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine, token_spec

GATEWAY_PORT = 4180
"""The port inside a sandbox that leads to the gateway."""

_HOME = "/tmp/harness-agent"  # noqa: S108 - in the sandbox, where /tmp is its own
_GO_ON = (
    "You were interrupted. The files are as they were after your last tool call: go on from there."
)


@dataclass(frozen=True, kw_only=True)
class LaunchContext:
    """What an agent is launched with: its task, and its way to the model.

    `home` is a folder of its own, outside the workspace. There it keeps its conversation as
    `session`, a UUID; `goes_on` says that this is there already.
    """

    task: AgentTask
    token: str
    url: str
    home: str
    session: str
    toolbox: ForwardedToolbox | None = None

    @property
    def resumes(self) -> bool:
        return self.task.conversation is not None

    @property
    def prompt(self) -> str:
        """What it is asked: its task, or to go on with it."""
        so_far = self.task.conversation
        return self.task.prompt if so_far is None else so_far.told or _GO_ON

    @property
    def system(self) -> str:
        """What is added to the agent's own system prompt."""
        return "\n".join(
            part
            for part in (self.task.system, self.toolbox and self.toolbox.prompt_section)
            if part
        )


@dataclass(frozen=True, kw_only=True)
class AgentProgram:
    """One command-line agent."""

    name: str
    launch: Callable[[LaunchContext], LaunchCommand]
    reading: Callable[[AgentActivity], EventParser]


def cli_agent(
    cli: AgentProgram,
    open_gate: OpenModelAccess,
    *,
    port: int = GATEWAY_PORT,
    on_line: OnLine = lambda _: None,
    first_byte_s: float = FIRST_OUTPUT_TIMEOUT_S,
) -> Agent:
    """The agent that `cli` describes; `port` leads from inside the sandbox to the gateway.

    Turns, usage, calls and decisions are counted by the gateway, so an agent that lies, is silent
    or was killed cannot falsify them. Only an answer that had sent nothing yet when the agent was
    killed may be missing. When the gateway stopped the agent, or its model failed, the error says
    that.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        check_allowed_tools(cli.name, task.allowed_tools)
        began = time.monotonic()
        before = task.conversation or Conversation(session=str(uuid4()), model=task.model)
        with open_gate(token_spec(cli.name, task)) as gate:
            story = AgentActivity(on_line)
            ongoing = _Ongoing(
                cli=cli,
                task=task,
                sandbox=sandbox,
                gate=gate,
                story=story,
                before=before,
                began=began,
            )
            session = AgentProcess(
                sandbox, ongoing.home, cli.reading(story), first_byte_s, ongoing.keep
            )
            ended = session.run(cli.launch(ongoing.order(port)), ongoing.left_s)
            spent = before.spent + gate.final_usage()
        return ongoing.result(ended, session, spent)

    return work


@dataclass(frozen=True, kw_only=True)
class _Ongoing:
    """One task under way, from its launch to its result; `began` is by the monotonic clock."""

    cli: AgentProgram
    task: AgentTask
    sandbox: Sandbox
    gate: ModelAccess
    story: AgentActivity
    before: Conversation
    began: float

    @property
    def home(self) -> str:
        """Found again by whoever goes on with this node."""
        return f"{_HOME}/{sha256(self.task.node.encode()).hexdigest()[:12]}"

    @property
    def left_s(self) -> float | None:
        """What earlier parts of the conversation left of its time."""
        limit_s = self.task.limits.time_s
        return None if limit_s is None else limit_s - self.before.elapsed_s

    def order(self, port: int) -> LaunchContext:
        return LaunchContext(
            task=self.task,
            token=self.gate.token,
            url=f"http://127.0.0.1:{port}",
            home=self.home,
            session=self.before.session,
            toolbox=forward_toolbox(self.task, self.sandbox),
        )

    def is_still(self) -> bool:
        """Whether the model has not asked for more; the gateway knows it first."""
        return sum(self.gate.current_usage().tool_calls.values()) == self.story.finished_calls

    def keep(self) -> None:
        """Hand out the conversation so far, if no tool is at work."""
        if self.is_still():
            spent = self.before.spent + self.gate.current_usage()
            self.task.save_conversation(
                replace(self._talk, spent=spent, elapsed_s=self._elapsed_s), self.is_still
            )

    def result(self, ended: ExecResult, session: AgentProcess, spent: AgentUsage) -> AgentResult:
        """How it ended.

        Raises:
            ModelUnavailable: it failed because its model did not answer.
        """
        error = session.why(ended, spent)
        waits = error is None and spent.decisions.denied > 0
        if not waits:
            session.clear()
        if error is not None:
            error = _with_spending(error, self.story.unfinished_calls, spent)
            _raise_if_outage(error, spent)
        return AgentResult(
            status="success" if error is None else "failure",
            output=self.story.output,
            error=error,
            turns=spent.turns,
            usage=spent.usage,
            duration_ms=round(self._elapsed_s * 1000),
            tool_calls=spent.tool_calls,
            decisions=spent.decisions + DecisionCounts(denied=session.reading.denied),
            conversation=self._talk if waits else None,
        )

    @property
    def _talk(self) -> Conversation:
        return replace(self.before, told="")

    @property
    def _elapsed_s(self) -> float:
        return self.before.elapsed_s + time.monotonic() - self.began


def _raise_if_outage(error: str, spent: AgentUsage) -> None:
    """An agent that failed because nobody answered did not fail: the run stops, as an outage."""
    if spent.outage and not spent.stopped:
        raise ModelUnavailable(error)


def _with_spending(error: str, under_way: str, spent: AgentUsage) -> str:
    """The reason, what was under way and what was spent, in one line."""
    doing = f"; under way: {under_way}" if under_way else ""
    return f"{error}{doing}; {describe_usage(spent.turns, spent.usage)}"
