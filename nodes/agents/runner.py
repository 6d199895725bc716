"""Lets agents do agentic nodes, within one budget for the whole run."""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from contracts.toolbox import Toolbox
from nodes.agents.conversation import NO_CONVERSATIONS, Conversation, ConversationStore
from nodes.agents.types import DEFAULT_TIME_S, Agent, AgentLimits, AgentTask, OnLine
from nodes.execute import RunAgent
from nodes.projects.find import has_network
from nodes.types import Agentic

MakeAgent = Callable[[OnLine], Agent]


def agent_runner(
    agents: Mapping[str, MakeAgent],
    *,
    budget_usd: float | None = None,
    spent_usd: float = 0.0,
    on_line: Callable[[str, str], None],
    toolbox: Callable[[], Toolbox | None] = lambda: None,
    conversations: ConversationStore = NO_CONVERSATIONS,
    secret_files_read: Callable[[str], tuple[str, ...]] = lambda _: (),
) -> RunAgent:
    """A `RunAgent` over the named agents; `tell` takes a node's name and a line as it happens.

    `toolbox` is asked when an agent begins, for what it is offered from the host. A node whose
    conversation `talks` has goes on with it; `read` tells which files with secrets it showed.
    All agents of the run together spend at most `budget_usd`, give or take the last reply;
    `spent_usd` of it is gone already.
    """

    purse = Lock()

    def run_agent(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        nonlocal spent_usd
        left = None if budget_usd is None else budget_usd - spent_usd
        if left is not None and left <= 0:
            return NodeResult.failure(
                f"budget exceeded: ${spent_usd:.4f} of ${budget_usd:g} are spent"
            )
        so_far = conversations.load(node.name)
        before_usd = (so_far or Conversation()).spent.usage.cost_usd
        task = AgentTask(
            node=node.name,
            prompt=node.prompt(ctx),
            system=ctx.memory,
            model=node.model or ctx.model,
            allowed_tools=node.allowed_tools,
            limits=_limits(node, None if left is None else left + before_usd),
            online=has_network(ctx),
            toolbox=toolbox(),
            conversation=so_far,
            secret_files_read=secret_files_read(node.name) if so_far else (),
            save_conversation=partial(conversations.save, node.name),
        )
        agent = agents[node.agent or ctx.agent](lambda line: on_line(node.name, line))
        result = agent(task, sandbox)
        with purse:  # agents in lanes spend at the same time
            spent_usd += result.usage.cost_usd - before_usd
        if result.conversation is not None:
            conversations.finish(node.name, result.conversation)
        return result.as_node_result()

    return run_agent


def _limits(node: Agentic, cost_usd: float | None) -> AgentLimits:
    return AgentLimits(
        turns=node.max_turns,
        tokens=node.max_tokens,
        cost_usd=cost_usd,
        time_s=node.timeout_s or DEFAULT_TIME_S,
    )
