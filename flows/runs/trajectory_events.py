"""Makes events from a trajectory: model calls, decisions, tool calls, secrets read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from contracts.agents import AGENTS
from contracts.entity import EMPTY_LABEL, Entity, Label
from contracts.json import Json, as_mapping, as_mappings
from contracts.model_access import GuardBounds
from contracts.run import without_attempt
from contracts.tool import ToolCall
from flows.runs.checkpoint import is_round
from flows.runs.request import ResolvedRequest
from nodes.agents.table import tool_word
from nodes.text import strip_control_characters, truncate_middle
from policy.guard.guard import GUARD_VERSION, AgentGuard
from policy.log.events import Draft
from providers.trajectory import parse_event

KEPT = 4_000
"""Characters of one text that an event stores. The trajectory has the full text."""

_CALL = ("id", "name", "arguments")

ALLOWED_TOOLS = "allowed-tools/1"
"""Name of the policy that decides by a node's `allowed_tools`."""


@dataclass(frozen=True, kw_only=True)
class NodeRules:
    """The agent of a node, its allowed tools and its bounds."""

    agent: str
    allowed_tools: tuple[str, ...] | None = None
    bounds: GuardBounds | None = None
    read: tuple[str, ...] = ()
    """Files with secrets that the agent had read before this run was resumed."""


def text_entity(
    text: str, *, origin: str, label: Label = EMPTY_LABEL, sources: Iterable[str] = ()
) -> Entity:
    """Return an entity of the text's beginning and end, with the digest of the full text."""
    plain = strip_control_characters(text)
    whole = sha256(plain.encode()).hexdigest()
    content: dict[str, Json] = {
        "text": truncate_middle(plain, KEPT),
        "size": len(plain),
        "sha256": whole,
    }
    return Entity(content=content, label=label, origin=origin, sources=tuple(sources))


@dataclass
class TrajectoryEvents:
    """Makes events from the trajectory lines of one node's agent, one line after the other.

    `inputs` are the entities that the agent could see at the start. Memory use is bounded.
    """

    run_id: str
    node: str
    rules: NodeRules
    inputs: tuple[Entity, ...]
    _drafts: list[Draft] = field(default_factory=list)
    _decided: list[Mapping[str, object]] = field(default_factory=list)
    _reply: Entity | None = None
    _results: list[Entity] = field(default_factory=list)
    _model: str = ""
    _guard: AgentGuard | None = None

    def __post_init__(self) -> None:
        if self.rules.bounds is not None:
            self._guard = AgentGuard(
                self.rules.bounds, partial(tool_word, self.rules.agent), self.rules.read
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Files with secrets that the agent has read so far."""
        return () if self._guard is None else tuple(self._guard.secrets_read)

    @property
    def view(self) -> list[str]:
        """Ids of the entities that the next reply depends on."""
        spoken = [] if self._reply is None else [self._reply]
        return [entity.id for entity in (*self.inputs, *spoken, *self._results)]

    def hear(self, line: Mapping[str, object]) -> list[Draft]:
        """Return the events of one line, in order."""
        self._drafts = []
        self._hear(line)
        return self._drafts

    def _hear(self, line: Mapping[str, object]) -> None:
        match line.get("kind"):
            case "decision" if "arguments" in line:
                self._direct_call(line)
            case "decision":
                self._decided.append(line)
            case "reply":
                self._model_call(line)
            case "broken":
                body = {"node": self.node, "why": _text(line.get("why")), "usage": None}
                self._add("model_call", body, self.view)
            case "result":
                self._tool_call(line)

    def _model_call(self, line: Mapping[str, object]) -> None:
        message = as_mapping(line.get("message"))
        calls = [_call(raw) for raw in as_mappings(message.get("tool_calls"))]
        said = json.dumps({"content": message.get("content"), "tool_calls": calls})
        reply = self._made(said, f"model {line.get('model')}", self.view)
        body: dict[str, Json] = {
            "node": self.node,
            "model": _text(line.get("model")),
            "usage": _numbers(line.get("usage")),
            "stop_reason": _text(line.get("stop_reason")),
        }
        self._add("model_call", body, self.view, reply)
        self._reply, self._results = reply, []
        for decision in self._decided:
            call = next((c for c in calls if c["id"] == decision.get("call")), None)
            self._decision(decision, call, reply)
        self._decided = []

    def _direct_call(self, line: Mapping[str, object]) -> None:
        """Add the decision about a call that came from the sandbox, not from the model."""
        call: dict[str, Json] = {
            "id": _text(line.get("call")),
            "name": _text(line.get("tool")),
            "arguments": _text(line.get("arguments")),
        }
        asked = self._made(json.dumps(call), f"call {call['id']}", self.view)
        body: dict[str, Json] = {"node": self.node, "call": call["id"], "digest": ""}
        self._add("tool_call", body, self.view, asked)
        self._decision(line, call, asked)

    def _decision(
        self, line: Mapping[str, object], call: dict[str, Json] | None, reply: Entity
    ) -> None:
        words, approval = self.rules.allowed_tools, _text(line.get("approval"))
        question: dict[str, Json] = {
            "agent": self.rules.agent,
            "allowed_tools": None if words is None else list(words),
            "call": call,
        }
        if self.rules.agent not in AGENTS:  # the settings may name other tools tomorrow
            name = _text((call or {}).get("name"))
            word = tool_word(self.rules.agent, name)
            question["tools"] = {name: word} if word else {}
        if self.rules.bounds is not None and self._guard is not None:
            bounds: dict[str, Json] = asdict(self.rules.bounds)
            question |= {"bounds": bounds, "read": list(self._guard.secrets_read)}
            if call is not None:
                self._guard(_tool_call(call))
        body: dict[str, Json] = {
            "node": self.node,
            "policy": ALLOWED_TOOLS if self._guard is None else GUARD_VERSION,
            "verdict": "denied" if approval else _text(line.get("verdict")),
            "rule": _text(line.get("rule")),
            "reason": _text(line.get("reason")),
            "question": question,
        }
        let = bool(approval) and line.get("verdict") == "allowed"
        if also := as_mappings(line.get("also")):
            body["also"] = [
                {name: _text(one.get(name)) for name in ("rule", "reason")} for one in also
            ]
        if approval:
            body |= {"approval": approval, "approved": let}
        self._add("decision", body, [reply.id])
        if let and call is not None and self._guard is not None:
            self._guard.remember_allowed(_tool_call(call))
            self._endorsed(approval, call, reply)

    def _endorsed(self, approval: str, call: dict[str, Json], reply: Entity) -> None:
        """Return the event of a person's approval of this one call."""
        label = Label(caps=reply.label.caps)
        origin = f"endorsed by approval {approval}"
        vouched = Entity(content=call, label=label, origin=origin, sources=(reply.id,))
        body: dict[str, Json] = {"node": self.node, "approval": approval, "op": call["name"]}
        self._add("endorsement", body, [reply.id], vouched)

    def _tool_call(self, line: Mapping[str, object]) -> None:
        asked = [] if self._reply is None else [self._reply]
        seen = [entity.id for entity in (*asked, *self.inputs)]
        result = self._made(_text(line.get("text")), f"tool {line.get('call')}", seen)
        body: dict[str, Json] = {
            "node": self.node,
            "call": _text(line.get("call")),
            "digest": _text(line.get("digest")),
        }
        self._results.append(result)
        self._add("tool_call", body, seen, result)

    def _made(self, text: str, origin: str, seen: Iterable[str]) -> Entity:
        known = {e.id: e for e in (*self.inputs, *self._results)}
        if self._reply is not None:
            known[self._reply.id] = self._reply
        label = EMPTY_LABEL
        for name in seen:
            label = label.join(known[name].label)
        return text_entity(text, origin=f"{origin} in {self.node}", label=label, sources=seen)

    def _add(
        self,
        kind: Literal["model_call", "decision", "tool_call", "endorsement"],
        body: Mapping[str, Json],
        seen: Iterable[str],
        *made: Entity,
    ) -> None:
        draft = Draft(kind=kind, run_id=self.run_id, body=body, consumes=tuple(seen), produces=made)
        self._drafts.append(draft)


def _call(raw: Mapping[str, object]) -> dict[str, Json]:
    function = as_mapping(raw.get("function"))
    return {
        "id": _text(raw.get("id")),
        "name": _text(function.get("name")),
        "arguments": _text(function.get("arguments")),
    }


def _tool_call(call: Mapping[str, Json]) -> ToolCall:
    return ToolCall(**{name: str(call[name]) for name in _CALL})


def _text(value: object) -> str:
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _numbers(value: object) -> dict[str, Json]:
    found = as_mapping(value)
    return {name: n for name, n in found.items() if isinstance(n, int | float)}


def node_rules(request: ResolvedRequest, bounds: GuardBounds | None) -> Mapping[str, NodeRules]:
    """Return the rules for the agent of each node, by the node's name."""
    allowed = {node.name: request.allowed_tools(node) for node in request.agentic_nodes}
    return {
        node.name: NodeRules(
            agent=node.agent or request.agent,
            allowed_tools=None if (tools := allowed[node.name]) is None else tuple(tools),
            bounds=bounds,
        )
        for node in request.agentic_nodes
    }


def secrets_read(
    trajectory: Path, node: str, rules: Mapping[str, NodeRules], *, upto: int | None = None
) -> tuple[str, ...]:
    """Return the files with secrets that a node's agent has read, in all its attempts.

    A round after the push continues a conversation: what any agent has read counts there.

    `upto`: read only that many bytes of the trajectory; None reads all of it.
    """
    name = without_attempt(node)
    if name not in rules or not trajectory.exists():
        return ()
    telling = TrajectoryEvents(run_id="", node=name, rules=rules[name], inputs=())
    for line in _lines(trajectory, upto):
        if node_of_event(line) == name or is_round(name):
            telling.hear(line)
    return telling.secrets


def node_of_event(line: Mapping[str, object]) -> str:
    """Return the name of the node that a trajectory line belongs to, without the attempt."""
    return without_attempt(str(line.get("node", "")))


def _lines(path: Path, upto: int | None) -> Iterator[Mapping[str, object]]:
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (upto is not None and file.tell() > upto):
                return
            event = parse_event(line)
            if event is not None:
                yield event
