"""The policies that decisions of the event log can be decided again by, by their version."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ValidationError

from contracts.json import Json
from contracts.tool import Decision, ToolCall
from flows.trajectory_events import ALLOWED_TOOLS
from nodes.agents.allowed import guard_for
from policy.replay import Decide


class _Call(BaseModel, frozen=True, extra="forbid"):
    id: str
    name: str
    arguments: str


class _Question(BaseModel, frozen=True, extra="forbid"):
    agent: str
    allowed_tools: tuple[str, ...] | None
    call: _Call


def allowed_tools(question: Mapping[str, Json]) -> Decision:
    """Whether a node's allowed tools let its agent make this call."""
    try:
        asked = _Question.model_validate(dict(question))
    except ValidationError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    call = ToolCall(id=asked.call.id, name=asked.call.name, arguments=asked.call.arguments)
    return guard_for(asked.allowed_tools, asked.agent)(call)


POLICIES: Mapping[str, Decide] = MappingProxyType({ALLOWED_TOOLS: allowed_tools})
"""All that this Harness knows; an older version stays here for as long as logs may name it."""
