"""The interface of an agent, and conversations that can be saved and continued."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from contracts.chat import Message
from contracts.model_access import AgentUsage, TokenSpec
from contracts.run import NodeResult
from contracts.sandbox import Sandbox
from contracts.tool import Toolbox
from nodes.types import DEFAULT_MAX_TURNS

DEFAULT_TIME_S = 1800.0
"""Time limit of an agent whose node sets none."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation of an agent with its model, at a moment when no tool is running.

    The native agent saves its `messages`. A command-line agent saves them in the sandbox under the
    id `session`, in the folder of the node `home`. `told` is the first message after a resume;
    empty means the default, that the agent was interrupted. `spent` and `elapsed_s` are the usage
    so far.
    """

    model: str = ""
    messages: tuple[Message, ...] = ()
    session: str = ""
    home: str = ""
    told: str = ""
    spent: AgentUsage = field(default_factory=AgentUsage)
    elapsed_s: float = 0.0


StillCurrent = Callable[[], bool]
"""Return True if the agent has done nothing since the conversation was captured."""

SaveConversation = Callable[[Conversation, StillCurrent], None]
"""Save a conversation with the sandbox's files; check `StillCurrent` after saving the files."""


class ConversationStore(NamedTuple):
    """Functions that store conversations by node name; `finish` takes a completed one.

    `keeps_all`: also conversations that no person's decision may continue.
    """

    load: Callable[[str], Conversation | None] = lambda _: None
    save: Callable[[str, Conversation, StillCurrent], None] = lambda *_: None
    finish: Callable[[str, Conversation], None] = lambda *_: None
    keeps_all: bool = False


NO_CONVERSATIONS = ConversationStore()
"""Stores nothing."""


def redacted_store(store: ConversationStore, redact: Callable[[str], str]) -> ConversationStore:
    """Return a store that removes secrets from messages before it saves them."""

    def redacted(conversation: Conversation) -> Conversation:
        messages = map(redacted_message, conversation.messages)
        return replace(conversation, messages=tuple(messages))

    def redacted_message(message: Message) -> Message:
        calls = (replace(call, arguments=redact(call.arguments)) for call in message.tool_calls)
        return replace(message, content=redact(message.content), tool_calls=tuple(calls))

    return ConversationStore(
        store.load,
        lambda node, conversation, still: store.save(node, redacted(conversation), still),
        lambda node, conversation: store.finish(node, redacted(conversation)),
        store.keeps_all,
    )


@dataclass(frozen=True, kw_only=True)
class AgentLimits:
    """Limits of one agent. None sets no limit of that kind."""

    turns: int | None = DEFAULT_MAX_TURNS
    """Model calls."""
    tokens: int | None = None
    """Tokens of all kinds, cache reads included."""
    cost_usd: float | None = None
    time_s: float | None = DEFAULT_TIME_S


@dataclass(frozen=True, kw_only=True)
class AgentTask:
    """The task of an agent.

    `system` is appended to the agent's own system prompt. `allowed_tools` are the words and
    patterns of `allowed_tools.py`; None allows every tool.
    """

    node: str
    prompt: str
    model: str
    system: str = ""
    allowed_tools: Sequence[str] | None = None
    limits: AgentLimits = field(default_factory=AgentLimits)
    online: bool = False
    """True if the agent's commands can reach hosts outside the sandbox."""
    toolbox: Toolbox | None = None
    """Tools on the host. The agent gets those that `allowed_tools` contains."""
    conversation: Conversation | None = None
    """The conversation to continue; `limits` apply to all of it. None starts a new one."""
    secret_files_read: tuple[str, ...] = ()
    """Files with secrets that this conversation has shown already."""
    may_continue: bool = False
    """Return the conversation of an agent that finished, whatever was denied in it."""
    save_conversation: SaveConversation = lambda _, __: None
    """Called with the conversation whenever no tool is running."""


@dataclass(frozen=True, kw_only=True)
class AgentResult(NodeResult):
    """Result of an agent. `output` is its last message; `tool_calls` includes refused calls."""

    conversation: Conversation | None = None
    """Set if the agent finished, and `may_continue` or a person may approve a denied call."""

    def as_node_result(self) -> NodeResult:
        """Return the result without the conversation."""
        return NodeResult(**{f.name: getattr(self, f.name) for f in fields(NodeResult)})


def token_spec(agent: str, task: AgentTask) -> TokenSpec:
    """Return the spec of the task's token: its limits minus the usage of the conversation."""
    limits, allowed = task.limits, task.allowed_tools
    before = (task.conversation or Conversation()).spent
    return TokenSpec(
        node=task.node,
        agent=agent,
        model=task.model,
        allowed_tools=None if allowed is None else tuple(allowed),
        read=task.secret_files_read,
        turns=None if limits.turns is None else limits.turns - before.turns,
        tokens=None if limits.tokens is None else limits.tokens - before.usage.total,
        cost_usd=None if limits.cost_usd is None else limits.cost_usd - before.usage.cost_usd,
    )


Agent = Callable[[AgentTask, Sandbox], AgentResult]
"""Work on the task in the sandbox until it is done or a limit is reached.

Raises:
    ModelUnavailable, SandboxLost: an outage. A failed agent is a result.
    BlueprintInvalid: `allowed_tools` has an unknown word.
"""

OnLine = Callable[[str], None]
"""Receives one short line about each message and tool call, live."""
