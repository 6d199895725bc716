"""Shared by the tests of agents."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from contracts.model_access import GuardBounds, ModelAccess, OpenModelAccess, TokenSpec
from contracts.tool import Toolbox
from nodes.agents.acp import acp_agent
from nodes.agents.claude_code import claude_code
from nodes.agents.native import gateway_native_agent
from nodes.agents.pi import pi
from nodes.agents.table import agent_rows
from nodes.agents.types import (
    Agent,
    AgentLimits,
    AgentResult,
    AgentTask,
    Conversation,
    OnLine,
    SaveConversation,
)
from nodes.node_sandbox import NodeSandbox
from providers.client import Gateway
from providers.gateway_api import RunTerms
from sandbox.container import DockerSandbox
from tests.support.waiting import LONG_S

_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}


MakeAgent = Callable[[OpenModelAccess, OnLine], Agent]


def _acp_agent(name: str, gate: OpenModelAccess, on_line: OnLine) -> Agent:
    return acp_agent(name, gate, on_line=on_line)


AGENTS: dict[str, MakeAgent] = {
    "claude-code": lambda gate, on_line: claude_code(gate, on_line=on_line),
    "pi": lambda gate, on_line: pi(gate, on_line=on_line),
    "native": lambda gate, on_line: gateway_native_agent(gate, on_line=on_line),
    **{name: partial(_acp_agent, name) for name, row in agent_rows().items() if row.command},
}


class Bench:
    """Lets one agent work on a task with scripted replies; keeps what it told."""

    def __init__(self, gateway: Gateway, sandbox: DockerSandbox, folder: Path) -> None:
        self._gateway = gateway
        self._folder = folder
        self.sandbox = sandbox
        self.lines: list[str] = []
        self.trajectory = folder / "trajectory.jsonl"

    def __call__(
        self,
        agent: str,
        *replies: object,
        allowed: tuple[str, ...] | None = None,
        budget_usd: float | None = None,
        limits: AgentLimits | None = None,
        model: str | None = None,
        toolbox: Toolbox | None = None,
        bounds: GuardBounds | None = None,
        so_far: Conversation | None = None,
        keep: SaveConversation = lambda _, __: None,
    ) -> AgentResult:
        script = self._folder / "replies.jsonl"
        script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        terms = RunTerms(run_id="r1", trajectory=self.trajectory, budget_usd=budget_usd)
        task = AgentTask(
            node="fix",
            prompt="Make the failing test pass.\nSECRET-PROMPT",
            system="SECRET-MEMORY: the opening hour was 9 before.",
            model=model or f"scripted/{script}",
            allowed_tools=allowed,
            limits=limits or AgentLimits(time_s=LONG_S),
            toolbox=toolbox,
            conversation=so_far,
            save_conversation=keep,
        )
        with self._gateway.run(terms) as open_gate:
            inside = NodeSandbox(self.sandbox, env=_NO_BYTECODE, timeout_s=None, sink=print)

            def bounded(terms: TokenSpec) -> AbstractContextManager[ModelAccess]:
                return open_gate(replace(terms, bounds=bounds))

            return AGENTS[agent](bounded, self.lines.append)(task, inside)

    def events(self, kind: str) -> list[dict[str, object]]:
        found = map(json.loads, self.trajectory.read_text().splitlines())
        return [event for event in found if event["kind"] == kind]
