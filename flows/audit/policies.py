"""The policies by version, to repeat decisions of the event log."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from pydantic import BaseModel, ValidationError

from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.tool import Decision, Guard, ToolCall
from flows.runs.trajectory_events import ALLOWED_TOOLS
from nodes.agents.allowed_tools import allowed_tools_guard
from nodes.agents.table import tool_word
from policy.guard.guard import GUARD_VERSION, AgentGuard, combined_guard
from policy.log.replay import Decide
from policy.plan.decision_record import PLAN_POLICY_VERSION, redecide
from policy.plan.registry import plain_json


class _Call(BaseModel, frozen=True, extra="forbid"):
    id: str
    name: str
    arguments: str


class _ToolsQuestion(BaseModel, frozen=True, extra="forbid"):
    agent: str
    allowed_tools: tuple[str, ...] | None
    call: _Call
    tools: Mapping[str, str] | None = None
    """The called tool with its word, if the agent is none of the built-in ones."""

    def decide(self) -> Decision:
        return self.guard()(ToolCall(**self.call.model_dump()))

    def guard(self) -> Guard:
        return allowed_tools_guard(self.allowed_tools, self.agent, self.tools)


class _GuardQuestion(_ToolsQuestion, frozen=True, extra="forbid"):
    bounds: GuardBounds
    read: tuple[str, ...]

    def guard(self) -> Guard:
        word = partial(tool_word, self.agent) if self.tools is None else self.tools.get
        within_bounds = AgentGuard(self.bounds, word, self.read)
        return combined_guard((super().guard(), within_bounds))


def decide_allowed_tools(question: Mapping[str, Json]) -> Decision:
    """Repeat the decision whether a node's allowed tools permit this call."""
    return _decide(_ToolsQuestion, question)


def decide_agent_guard(question: Mapping[str, Json]) -> Decision:
    """Repeat the decision whether a node's tools and its run's bounds permit this call."""
    return _decide(_GuardQuestion, question)


def _decide(kind: type[_ToolsQuestion], question: Mapping[str, Json]) -> Decision:
    try:
        return kind.model_validate(plain_json(question)).decide()
    except ValidationError as error:
        raise ValueError(str(error).splitlines()[0]) from error


POLICIES: Mapping[str, Decide] = MappingProxyType(
    {
        ALLOWED_TOOLS: decide_allowed_tools,
        "agent-guard/2.1": decide_agent_guard,
        GUARD_VERSION: decide_agent_guard,
        "plan/1": partial(redecide, rules="1"),
        PLAN_POLICY_VERSION: redecide,
    }
)
"""An old version of a policy stays here for as long as logs may name it."""
