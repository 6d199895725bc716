"""Agents that are command-line programs in the sandbox, with a token for the gateway."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from contracts.errors import ModelUnavailable
from contracts.model_access import (
    AgentUsage,
    HostTools,
    ModelAccess,
    OpenModelAccess,
    describe_usage,
)
from contracts.run import DecisionCounts
from contracts.sandbox import ExecResult, OpenInput, Sandbox
from contracts.tool import Tool, Toolbox
from nodes.agents.agent_process import (
    FIRST_OUTPUT_TIMEOUT_S,
    AgentProcess,
    EventParser,
    LaunchCommand,
)
from nodes.agents.allowed_tools import check_allowed_tools, offered_toolbox
from nodes.agents.cli_output import AgentActivity
from nodes.agents.table import agent_rows
from nodes.agents.types import Agent, AgentResult, AgentTask, Conversation, OnLine, token_spec

GATEWAY_PORT = 4180
"""The port inside a sandbox that is forwarded to the gateway."""

MCP_SERVER_NAME = "harness"
"""Name of the gateway's MCP server, with all tools of the host. Agents put it into their names."""

_HOME = "/tmp/harness-agent"  # noqa: S108 - in the sandbox, where /tmp is its own
_TOOL_CLIENT = Path(__file__).with_name("host_tools.mjs")
_RESUMED = (
    "You were interrupted. The files are as they were after your last tool call: go on from there."
)


@dataclass(frozen=True, kw_only=True)
class OfferedTools:
    """Tools on the host, which the sandbox calls at the gateway's MCP endpoint."""

    tools: tuple[Tool, ...]
    prompt_section: str


@dataclass(frozen=True, kw_only=True)
class LaunchContext:
    """Everything that an agent program is started with.

    `home` is the agent's folder outside the workspace. The agent keeps its conversation there
    under the id `session`, a UUID; with `resumes` that conversation exists already.
    """

    task: AgentTask
    token: str
    url: str
    home: str
    session: str
    work_dir: str = "/workspace"
    toolbox: OfferedTools | None = None
    input: OpenInput = field(default_factory=OpenInput)
    """Standard input of an agent that holds a dialogue on it."""

    @property
    def resumes(self) -> bool:
        return self.task.conversation is not None

    @property
    def prompt(self) -> str:
        """The task's prompt, or the first message after a resume."""
        conversation = self.task.conversation
        return self.task.prompt if conversation is None else conversation.told or _RESUMED

    @property
    def system(self) -> str:
        """The text to append to the agent's own system prompt."""
        section = self.toolbox.prompt_section if self.toolbox else ""
        return "\n".join(part for part in (self.task.system, section) if part)

    @property
    def mcp_url(self) -> str:
        """The gateway's MCP endpoint with the tools of the host."""
        return f"{self.url}/mcp"

    @property
    def mcp_authorization(self) -> str:
        """The header `Authorization` for this endpoint."""
        return f"Bearer {self.token}"

    def tool_files(self) -> Mapping[str, str]:
        """Return files of `home` by which an agent without MCP servers calls tools of the host."""
        tools = [
            {
                "name": t.name,
                "description": t.description,
                "parametersJsonSchema": dict(t.parameters),
            }
            for t in (self.toolbox.tools if self.toolbox else ())
        ]
        gateway = {"url": self.mcp_url, "authorization": self.mcp_authorization}
        return {
            f"{self.home}/tools.json": json.dumps(tools),
            f"{self.home}/gateway.json": json.dumps(gateway),
            f"{self.home}/{_TOOL_CLIENT.name}": _TOOL_CLIENT.read_text(),
        }


@dataclass(frozen=True, kw_only=True)
class AgentProgram:
    """A command-line agent: how to start it, and how to parse its output."""

    name: str
    launch: Callable[[LaunchContext], LaunchCommand]
    parser: Callable[[AgentActivity, LaunchContext], EventParser]


def cli_agent(
    program: AgentProgram,
    open_access: OpenModelAccess,
    *,
    port: int = GATEWAY_PORT,
    on_line: OnLine = lambda _: None,
    first_output_s: float = FIRST_OUTPUT_TIMEOUT_S,
) -> Agent:
    """Return the agent for a program; `port` in the sandbox leads to the gateway.

    The gateway counts turns, usage, calls and decisions, so that an agent cannot falsify them. If
    the agent is killed, a model answer that had not begun may be missing. If the gateway stopped
    the agent or the model failed, that is the error.
    """

    def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
        check_allowed_tools(program.name, task.allowed_tools)
        began = time.monotonic()
        row, spec = agent_rows()[program.name], token_spec(program.name, task)
        toolbox = offered_toolbox(task.toolbox, task.allowed_tools) if row.host_tool else None
        with ExitStack() as stack:
            if toolbox:
                endpoint = stack.enter_context(toolbox.serve(toolbox))
                spec = replace(spec, tools=HostTools(endpoint=endpoint, prefix=row.host_prefix))
            access = stack.enter_context(open_access(spec))
            activity = AgentActivity(on_line)
            job = _AgentRun(
                task=task,
                sandbox=sandbox,
                access=access,
                activity=activity,
                toolbox=toolbox,
                before=task.conversation
                or Conversation(session=str(uuid4()), model=task.model, home=task.node),
                began=began,
            )
            context = job.launch_context(port)
            parser = program.parser(activity, context)
            process = AgentProcess(sandbox, job.home, parser, first_output_s, job.save)
            ended = process.run(program.launch(context), job.left_s)
            spent = job.before.spent + access.final_usage()
        return job.result(ended, process, spent)

    return work


@dataclass(frozen=True, kw_only=True)
class _AgentRun:
    """One run of an agent program, from its launch to its result."""

    task: AgentTask
    sandbox: Sandbox
    access: ModelAccess
    activity: AgentActivity
    toolbox: Toolbox | None
    before: Conversation
    began: float

    @property
    def home(self) -> str:
        """The folder of the node that began the conversation, where a resume finds the session."""
        began_in = self.before.home or self.task.node
        return f"{_HOME}/{sha256(began_in.encode()).hexdigest()[:12]}"

    @property
    def left_s(self) -> float | None:
        limit_s = self.task.limits.time_s
        return None if limit_s is None else limit_s - self.before.elapsed_s

    def launch_context(self, port: int) -> LaunchContext:
        return LaunchContext(
            task=self.task,
            token=self.access.token,
            url=f"http://127.0.0.1:{port}",
            home=self.home,
            session=self.before.session,
            work_dir=self.sandbox.work_dir,
            toolbox=self._offered_tools(),
        )

    def _offered_tools(self) -> OfferedTools | None:
        box, task = self.toolbox, self.task
        if box is None:
            return None
        section = box.prompt_section(task.prompt)
        return OfferedTools(tools=box.tools, prompt_section=section)

    def is_current(self) -> bool:
        """Return True if all calls of the model have ended. The gateway sees new calls first."""
        usage = self.access.current_usage()
        allowed = sum(usage.tool_calls.values()) - usage.decisions.denied
        return allowed == self.activity.finished_calls

    def save(self) -> None:
        """Save the conversation if no tool call is running."""
        if self.is_current():
            spent = self.before.spent + self.access.current_usage()
            now = replace(self._saved, spent=spent, elapsed_s=self._elapsed_s)
            self.task.save_conversation(now, self.is_current)

    def result(self, ended: ExecResult, process: AgentProcess, spent: AgentUsage) -> AgentResult:
        """Return the agent's result.

        Raises:
            ModelUnavailable: the agent failed because its model did not answer.
        """
        error = process.error(ended, spent)
        wanted = self.task.may_continue or spent.decisions.denied > 0
        may_continue = error is None and wanted
        if not may_continue:
            process.remove_files()
        if error is not None:
            calls = self.activity.unfinished_calls
            running = f"; under way: {calls}" if calls else ""
            error = f"{error}{running}; {describe_usage(spent.turns, spent.usage)}"
            if spent.outage and not spent.stopped:
                raise ModelUnavailable(error)
        return AgentResult(
            status="success" if error is None else "failure",
            output=self.activity.output,
            error=error,
            turns=spent.turns,
            answers=dict(spent.answers),
            usage=spent.usage,
            duration_ms=round(self._elapsed_s * 1000),
            tool_calls=dict(spent.tool_calls),
            decisions=spent.decisions + DecisionCounts(denied=process.parser.denied),
            conversation=self._saved if may_continue else None,
        )

    @property
    def _saved(self) -> Conversation:
        session = self.activity.session or self.before.session
        return replace(self.before, session=session, told="")

    @property
    def _elapsed_s(self) -> float:
        return self.before.elapsed_s + time.monotonic() - self.began
