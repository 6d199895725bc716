"""Run agentic nodes with their agents, under one budget for the whole run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from contracts.tool import Toolbox
from nodes.agents.allowed_tools import AllowedTools, parse_allowed_tools, with_mcp_tools
from nodes.agents.types import (
    DEFAULT_TIME_S,
    NO_CONVERSATIONS,
    Agent,
    AgentLimits,
    AgentTask,
    Conversation,
    ConversationStore,
    OnLine,
)
from nodes.execute import RunAgent
from nodes.projects.find import has_network
from nodes.types import Agentic

MakeAgent = Callable[[OnLine], Agent]


class RunBudget(NamedTuple):
    """What all agents of a run may use together, and what they have used already."""

    usd: float | None = None
    tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0


NO_BUDGET = RunBudget()


def agent_runner(
    agents: Mapping[str, MakeAgent],
    *,
    budget: RunBudget = NO_BUDGET,
    on_line: Callable[[str, str], None],
    mcp: Sequence[str] = (),
    toolbox: Callable[[AllowedTools], Toolbox | None] = lambda _: None,
    conversations: ConversationStore = NO_CONVERSATIONS,
    secret_files_read: Callable[[str], tuple[str, ...]] = lambda _: (),
) -> RunAgent:
    """Return a `RunAgent` for the named agents. `on_line` gets a node's name and a live line.

    `mcp` are patterns of tools of MCP servers that every agent may use. `toolbox` is called at the
    start of each agent, with the tools that it may use. A node with a saved conversation continues
    it; `secret_files_read` then returns the secret files that the conversation has shown. All
    agents together spend at most the budget, plus the reply that exceeds it.
    """
    lock = Lock()
    budget_usd, budget_tokens, spent_usd, spent_tokens = budget

    def run_agent(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        nonlocal spent_usd, spent_tokens
        left_usd = None if budget_usd is None else budget_usd - spent_usd
        if left_usd is not None and left_usd <= 0:
            return NodeResult.failure(
                f"budget exceeded: ${spent_usd:.4f} of ${budget_usd:g} are spent"
            )
        left_tokens = None if budget_tokens is None else budget_tokens - spent_tokens
        if left_tokens is not None and left_tokens <= 0:
            return NodeResult.failure(
                f"token budget exceeded: {spent_tokens:,} of {budget_tokens:,} are used"
            )
        conversation = conversations.load(node.name)
        allowed_tools = with_mcp_tools(node.allowed_tools, mcp)
        before = (conversation or Conversation()).spent.usage
        before_usd = before.cost_usd
        task = AgentTask(
            node=node.name,
            prompt=node.prompt(ctx),
            system="\n\n".join(filter(None, (ctx.rules, ctx.memory))),
            model=node.model_or(ctx.model),
            allowed_tools=allowed_tools,
            limits=AgentLimits(
                turns=node.max_turns,
                tokens=_smaller(
                    node.max_tokens, None if left_tokens is None else left_tokens + before.total
                ),
                cost_usd=None if left_usd is None else left_usd + before_usd,
                time_s=node.timeout_s or DEFAULT_TIME_S,
            ),
            online=has_network(ctx),
            toolbox=toolbox(parse_allowed_tools(allowed_tools)),
            conversation=conversation,
            secret_files_read=secret_files_read(node.name) if conversation else (),
            may_continue=conversations.keeps_all,
            save_conversation=partial(conversations.save, node.name),
        )
        agent = agents[node.agent or ctx.agent](lambda line: on_line(node.name, line))
        result = agent(task, sandbox)
        with lock:  # agents in lanes run at the same time
            spent_usd += result.usage.cost_usd - before_usd
            spent_tokens += result.usage.total - before.total
        if result.conversation is not None:
            conversations.finish(node.name, result.conversation)
        return result.as_node_result()

    return run_agent


def _smaller(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
