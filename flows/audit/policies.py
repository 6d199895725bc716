"""The policies by version, to repeat decisions of the event log."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ValidationError

from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.tool import Decision, ToolCall
from flows.runs.trajectory_events import ALLOWED_TOOLS
from nodes.agents.allowed_tools import AGENT_TOOLS, allowed_tools_guard
from policy.guard.guard import GUARD_VERSION, AgentGuard, combined_guard
from policy.log.replay import Decide
from policy.plan.decision_record import PLAN_POLICY_VERSION, redecide
from policy.plan.registry import plain_json


class _Call(BaseModel, frozen=True, extra="forbid"):
    id: str
    name: str
    arguments: str


class _Question(BaseModel, frozen=True, extra="forbid"):
    agent: str
    allowed_tools: tuple[str, ...] | None
    call: _Call


def decide_allowed_tools(question: Mapping[str, Json]) -> Decision:
    """Repeat the decision whether a node's allowed tools permit this call."""
    try:
        asked = _Question.model_validate(dict(question))
    except ValidationError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    call = ToolCall(id=asked.call.id, name=asked.call.name, arguments=asked.call.arguments)
    return allowed_tools_guard(asked.allowed_tools, asked.agent)(call)


class _Bounded(_Question, frozen=True, extra="forbid"):
    bounds: GuardBounds
    read: tuple[str, ...]


def decide_agent_guard(question: Mapping[str, Json]) -> Decision:
    """Repeat the decision whether a node's tools and its run's bounds permit this call."""
    try:
        asked = _Bounded.model_validate(plain_json(question))
    except ValidationError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    call = ToolCall(id=asked.call.id, name=asked.call.name, arguments=asked.call.arguments)
    allowed = allowed_tools_guard(asked.allowed_tools, asked.agent)
    return combined_guard(
        (allowed, AgentGuard(asked.bounds, AGENT_TOOLS[asked.agent].get, asked.read))
    )(call)


POLICIES: Mapping[str, Decide] = MappingProxyType(
    {
        ALLOWED_TOOLS: decide_allowed_tools,
        GUARD_VERSION: decide_agent_guard,
        PLAN_POLICY_VERSION: redecide,
    }
)
"""An old version of a policy stays here for as long as logs may name it."""
