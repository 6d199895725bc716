"""Builds the agents of a run. Each reaches its model through the gateway."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from contracts.errors import SandboxLost, Unavailable
from contracts.model_access import GuardBounds, OpenModelAccess
from contracts.sandbox import Sandbox
from flows.services.gateway import GatewayRun
from nodes.agents.claude_code import claude_code
from nodes.agents.cli import GATEWAY_PORT
from nodes.agents.native import gateway_native_agent
from nodes.agents.pi import pi
from nodes.agents.runner import MakeAgent
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine

MakeGated = Callable[[OpenModelAccess, OnLine], Agent]

_CLI: Mapping[str, MakeGated] = {
    "claude-code": lambda open_gate, on_line: claude_code(open_gate, on_line=on_line),
    "pi": lambda open_gate, on_line: pi(open_gate, on_line=on_line),
}
"""Agents that are programs inside the sandbox."""


def agents_behind_gateway(run: GatewayRun) -> dict[str, MakeAgent]:
    """Return all agents by name. The first that works in a sandbox forwards its port to the
    gateway."""

    def lead(agent: Agent) -> Agent:
        def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
            try:
                sandbox.forward(GATEWAY_PORT, run.gateway.connect)
            except SandboxLost:
                raise
            except Unavailable:
                pass  # only a forward outlives a command in the sandbox
            return agent(task, sandbox)

        return work

    def maker(make: MakeGated) -> MakeAgent:
        return lambda on_line: lead(make(run.open_gate, on_line))

    cli = {name: maker(make) for name, make in _CLI.items()}
    return {**cli, "native": lambda on_line: gateway_native_agent(run.open_gate, on_line=on_line)}


def bounded_gate(open_gate: OpenModelAccess, bounds: GuardBounds | None) -> OpenModelAccess:
    """Return `open_gate` with these bounds for the guard."""
    return lambda terms: open_gate(replace(terms, bounds=bounds))
