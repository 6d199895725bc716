"""Writes the events of a run into the event log, after each node. Independent of Prefect."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from contracts.entity import Entity, Label, join_labels
from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.run import NodeResult, OutputReport, RunContext, RunReport, without_attempt
from flows.audit.event_log import AppendEvents
from flows.recall.notes import NodeRequest, PromptBlock, RunNotes
from flows.runs.checkpoint import Round, StartPoint, round_name
from flows.runs.home import EGRESS, TRAJECTORY
from flows.runs.report import to_json
from flows.runs.request import ResolvedRequest, repo_name
from flows.runs.trajectory_events import (
    NodeRules,
    TrajectoryEvents,
    node_of_event,
    node_rules,
    secrets_read,
    text_entity,
)
from memory.types import RecallResult
from nodes.agents.allowed_tools import parse_allowed_tools
from nodes.text import Redact
from nodes.types import NODE_TYPES, Node, Output, inner_nodes
from policy.log.events import Draft, Kind
from providers.trajectory import parse_event
from sandbox.redaction import redact_url

_BATCH = 200
"""Events written in one transaction: a trajectory may be larger than memory."""

_LOGS = (TRAJECTORY, EGRESS)
"""Files of the run that events are made of."""


def log_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of a run's logs in bytes, by file name."""
    logs = (folder / name for name in _LOGS)
    return {log.name: log.stat().st_size for log in logs if log.exists()}


class RunEvents:
    """Follows one run and appends its events.

    The result of a node is tainted by all untrusted content that the node could see: every node
    sees the workspace, an agent also the intent and memory. The events of nodes that were finished
    at `start` of a resumed run are in the log already.
    """

    def __init__(
        self,
        append: AppendEvents,
        request: ResolvedRequest,
        *,
        run_id: str,
        start: StartPoint,
        folder: Path,
        redact: Redact,
        bounds: GuardBounds | None = None,
    ) -> None:
        self._append = append
        self._request = request
        self._run_id = run_id
        self._redact = redact
        self._bounds = bounds
        checkpoint = start.checkpoint
        self._trajectory, self._egress = (
            _Tail(folder / name, at=checkpoint.heard.get(name, 0)) for name in _LOGS
        )
        rules, upto = node_rules(request, bounds), checkpoint.heard.get(TRAJECTORY, 0)
        self._secrets_read = {
            without_attempt(node): secrets_read(folder / TRAJECTORY, node, rules, upto=upto)
            for node in checkpoint.talks
        }
        self._finished: set[str] = set()
        self._intent = self._intent_entity()
        self._memory: Entity | None = None
        self._notes: dict[str, Entity] = {}
        self._said: dict[str, Entity] = {}
        self._snapshot: str | None = None
        self._servers = self._servers_entity()
        self._workspace = self._repository_entity(checkpoint.base.commit)
        self._recorded = frozenset(checkpoint.results if start.resumed else ())
        self._pending: list[Draft] = []
        if not start.resumed:
            blueprint = {"blueprint": request.definition.name}
            commit = {"commit": checkpoint.base.commit}
            self._pending = [
                self._draft("prompt", blueprint, produces=(self._intent,)),
                self._draft("source", commit, produces=(self._workspace,)),
            ]
            if self._servers is not None:
                used = {"mcp": list(request.mcp_servers)}
                self._pending.append(self._draft("source", used, produces=(self._servers,)))
        for number, one in enumerate(checkpoint.rounds, 1):
            self._forge_said(round_name(number), one)

    def memory_shown(self, recall: RecallResult) -> None:
        """Record the playbooks that the run was shown."""
        if not recall.text:
            return
        hits = [hit for hit in recall.results.hits if hit.playbook.id in recall.shown]
        taint = frozenset(f"playbook:{hit.playbook.slug}" for hit in hits if hit.has_run_text)
        text = self._redact(recall.text)
        self._memory = text_entity(text, origin="memory", label=Label(taint=taint))
        slugs: list[Json] = [hit.playbook.slug for hit in hits]
        self._pending.append(self._draft("memory", {"playbooks": slugs}, produces=(self._memory,)))
        self._relate_to_intent(self._memory)

    def _forge_said(self, node: str, one: Round) -> None:
        """Record what came from the forge and what a round's agent is told about it."""
        label = Label(taint=frozenset({"forge:comments" if one.asked else "forge:checks"}))
        self._said[node] = text_entity(self._redact(one.said), origin="forge", label=label)
        if node not in self._recorded:
            made = self._draft("source", {"node": node}, produces=(self._said[node],))
            self._pending.append(made)

    def recording_notes(self, notes: RunNotes) -> RunNotes:
        """Return `notes` whose `inject` also records what a node is given.

        Agents write notes too, so they carry the tag `notebook`.
        """

        def inject(node_request: NodeRequest) -> PromptBlock:
            block = notes.inject(node_request)
            if block.text:
                label = Label(taint=frozenset({"notebook"}))
                made = text_entity(self._redact(block.text), origin="notebook", label=label)
                node = node_request.node
                self._notes[without_attempt(node)] = made
                self._pending.append(self._draft("memory", {"node": node}, produces=(made,)))
                self._relate_to_intent(made)
            return block

        return replace(notes, inject=inject)

    def write_start(self) -> None:
        """Append what the run starts from. If that fails, no node may run."""
        self._flush()

    def node_finished(self, ctx: RunContext, files: str | None = None) -> None:
        """Append the events of all nodes that finished since the last call.

        `files` names the snapshot of the workspace as it is now, if there is one.
        """
        for node in self._request.definition.nodes:
            if node.name in ctx.results and node.name not in self._finished:
                self._record_node(node, ctx)
        if files is not None and files != self._snapshot:
            self._pending.append(self._draft("snapshot", {"files": files}, (self._workspace,)))
            self._snapshot = files
        self._flush()

    def output_ended(self, node: Output, report: OutputReport) -> None:
        """Append what became of an output. Its text has the label of what its agent could see."""
        body: dict[str, Json] = {
            "node": node.name,
            "by": node.by,
            "status": report.status,
            "about": report.about,
            "page": report.page,
            "reason": report.reason,
        }
        self._pending.append(self._draft("output", body, (self._workspace,)))
        self._flush()

    def run_finished(self, report: RunReport) -> None:
        """Append the report of the run, whatever its status."""
        self._record_egress()
        body = json.loads(json.dumps(to_json(report)))
        for large in ("nodes", "intent"):
            body.pop(large)
        # The report quotes what agents wrote, so it carries the label of the workspace.
        made = text_entity(
            json.dumps(body),
            origin=f"report of {self._run_id}",
            label=self._workspace.label,
            sources=[self._workspace.id],
        )
        self._pending.append(self._draft("report", body, (self._workspace,), (made,)))
        self._flush()

    def _record_node(self, node: Node, ctx: RunContext) -> None:
        """Record the trajectory of the node, in batches, then the node and its inner nodes."""
        parts = [part for part in (*inner_nodes(node), node) if part.name in ctx.results]
        is_recorded = node.name in self._recorded
        rules = self._node_rules()
        readers = {
            part.name: TrajectoryEvents(
                run_id=self._run_id,
                node=part.name,
                rules=rules[part.name],
                inputs=self._inputs(part),
            )
            for part in parts
            if part.name in rules
        }
        for line in self._trajectory.lines():
            reader = readers.get(node_of_event(line))
            if reader is not None:
                self._add([] if is_recorded else reader.hear(line))
        for part in parts:
            view = readers[part.name].view if part.name in readers else None
            draft = self._node_draft(part, ctx.results[part.name], view)
            self._add([] if is_recorded else [draft])
        if is_recorded:
            self._pending.clear()
        self._finished |= ctx.results.keys()

    def _add(self, drafts: Sequence[Draft]) -> None:
        self._pending += drafts
        if len(self._pending) >= _BATCH:
            self._flush()

    def _node_draft(self, node: Node, result: NodeResult, view: Sequence[str] | None) -> Draft:
        """`view` names the entities that an agent's result is based on; None: no agent worked."""
        fetched = self._record_egress()
        inputs = self._inputs(node)
        seen = [entity.id for entity in inputs] if view is None else view
        seen = [*seen, *(entity.id for entity in fetched)]
        text = "\n".join(filter(None, (result.error, result.output)))
        label = join_labels(entity.label for entity in (*inputs, *fetched))
        made = text_entity(text, origin=f"node {node.name}", label=label, sources=seen)
        body: dict[str, Json] = {
            "node": node.name,
            "type": NODE_TYPES[type(node)],
            "status": result.status,
            "duration_ms": result.duration_ms,
            "attempts": len(result.attempts),
            "turns": result.turns,
        }
        self._workspace = made
        return Draft(
            kind="node", run_id=self._run_id, body=body, consumes=tuple(seen), produces=(made,)
        )

    def _inputs(self, node: Node) -> tuple[Entity, ...]:
        """The entities that the node could see. The first node sees all and passes its label on."""
        is_first = not self._finished
        rules = self._node_rules().get(node.name)
        given = (self._notes.get(node.name), self._said.get(node.name))
        context = (self._intent, self._memory, *given)
        shown = [entity for entity in context if entity is not None]
        may_call = rules is not None and parse_allowed_tools(rules.allowed_tools).mcp
        servers = [self._servers] if self._servers is not None and may_call else []
        return (self._workspace, *(shown if is_first or rules is not None else ()), *servers)

    def _node_rules(self) -> Mapping[str, NodeRules]:
        rules = node_rules(self._request, self._bounds)
        return {
            name: replace(one, read=self._secrets_read.get(name, ())) for name, one in rules.items()
        }

    def _record_egress(self) -> list[Entity]:
        """Record the network accesses since the last call; return the hosts that were reached."""
        reached: dict[str, Entity] = {}
        for line in self._egress.lines():
            host = str(line.get("host", ""))
            body: dict[str, Json] = {k: v for k, v in line.items() if isinstance(v, str | int)}
            made: tuple[Entity, ...] = ()
            if line.get("kind") == "allowed" and host not in reached:
                label = Label(taint=frozenset({f"web:{host}"}))
                reached[host] = Entity(content=host, label=label, origin=f"web {self._run_id}")
                made = (reached[host],)
            self._pending.append(self._draft("egress", body, (self._workspace,), made))
        return list(reached.values())

    def _intent_entity(self) -> Entity:
        sources = self._request.taint[1:]
        return text_entity(
            self._redact(self._request.intent),
            origin=sources[0] if sources else "prompt",
            label=Label(taint=frozenset(sources)),
        )

    def _servers_entity(self) -> Entity | None:
        """The descriptions of MCP tools. An agent reads them before its first action."""
        names = self._request.mcp_servers
        label = Label(taint=frozenset(f"mcp:{name}" for name in names))
        return Entity(content=names, label=label, origin="mcp servers") if names else None

    def _repository_entity(self, commit: str) -> Entity:
        name = repo_name(self._request.repo)
        label = Label(taint=frozenset({f"repo:{name}"}))
        content = {"repository": self._redact(redact_url(self._request.repo)), "commit": commit}
        return Entity(content=content, label=label, origin=f"repository {name}")

    def _relate_to_intent(self, shown: Entity) -> None:
        relation = self._draft("relation", {"kind": "RELATES_TO"}, (shown, self._intent))
        self._pending.append(relation)

    def _draft(
        self,
        kind: Kind,
        body: Mapping[str, Json],
        consumes: Sequence[Entity] = (),
        produces: Sequence[Entity] = (),
    ) -> Draft:
        return Draft(
            kind=kind,
            run_id=self._run_id,
            body=body,
            consumes=tuple(entity.id for entity in consumes),
            produces=tuple(produces),
        )

    def _flush(self) -> None:
        # Cleared only after the append: a failed append is repeated with the next events.
        self._append(self._pending)
        self._pending = []


class _Tail:
    """Reads the lines that were added to a file since the last read; skips an unfinished line."""

    def __init__(self, path: Path, *, at: int) -> None:
        self._path = path
        self._at = at

    def lines(self) -> Iterator[Mapping[str, object]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                event = parse_event(line)
                if event is not None:
                    yield event
