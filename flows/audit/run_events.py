"""What a run writes into the event log, after each node. No Prefect here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from contracts.entity import Entity, Label, join_labels
from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.names import without_attempt
from contracts.run import NodeResult, RunContext, RunReport
from flows.recall.notes import NodeRequest, PromptBlock, RunNotes
from flows.runs.checkpoint import StartPoint
from flows.runs.layout import EGRESS, TRAJECTORY
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
from memory.around_run import RecallResult
from nodes.text import Redact
from nodes.types import NODE_TYPES, Node, inner_nodes
from policy.log.events import Draft, Kind
from providers.read_trajectory import parse_event
from sandbox.git import redact_url

AppendEvents = Callable[[Sequence[Draft]], object]
"""Adds events to the log, all or none.

Raises:
    LogUnavailable: it cannot be written: an outage, which stops the run.
    LogDamaged: it lacks what it once had.
"""


_AT_ONCE = 200
"""Events that are written in one transaction, about: a trajectory may be larger than memory."""

_LOGS = (TRAJECTORY, EGRESS)
"""What events are made of, in the run's own folder."""


def log_sizes(folder: Path) -> dict[str, int]:
    """How much there is of a run's logs."""
    logs = (folder / name for name in _LOGS)
    return {log.name: log.stat().st_size for log in logs if log.exists()}


class RunEvents:
    """Follows one run. What is made in view of untrusted content is tainted by it, whoever made it:
    a node sees the workspace, an agent the intent and memory too.

    Where the run is resumed, what is finished at `start` was told of before.
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
        known, upto = node_rules(request, bounds), checkpoint.heard.get(TRAJECTORY, 0)
        self._read = {
            without_attempt(node): secrets_read(folder / TRAJECTORY, node, known, upto=upto)
            for node in checkpoint.talks
        }
        self._known: set[str] = set()
        self._intent = self._read_intent()
        self._memory: Entity | None = None
        self._given: dict[str, Entity] = {}
        self._files: str | None = None
        self._workspace = self._read_repository(checkpoint.base.commit)
        self._told = frozenset(checkpoint.results if start.resumed else ())
        self._waiting: list[Draft] = []
        if not start.resumed:
            asked = {"blueprint": request.definition.name}
            self._waiting = [
                self._draft("prompt", asked, made=(self._intent,)),
                self._draft("source", {"commit": checkpoint.base.commit}, made=(self._workspace,)),
            ]

    def memory_shown(self, recall: RecallResult) -> None:
        """Memory showed this to the run."""
        if not recall.text:
            return
        hits = [hit for hit in recall.results.hits if hit.playbook.id in recall.shown]
        taint = frozenset(f"playbook:{hit.playbook.slug}" for hit in hits if hit.has_run_text)
        said = self._redact(recall.text)
        self._memory = text_entity(said, origin="memory", label=Label(taint=taint))
        shown: list[Json] = [hit.playbook.slug for hit in hits]
        self._waiting.append(self._draft("memory", {"playbooks": shown}, made=(self._memory,)))
        self._relate(self._memory)

    def recording_notes(self, notes: RunNotes) -> RunNotes:
        """The same notebook; what it gives to a node is told with the node.

        Notes are written by agents too, so they carry the tag `notebook`.
        """

        def give(seat: NodeRequest) -> PromptBlock:
            given = notes.inject(seat)
            if given.text:
                label = Label(taint=frozenset({"notebook"}))
                made = text_entity(self._redact(given.text), origin="notebook", label=label)
                self._given[without_attempt(seat.node)] = made
                self._waiting.append(self._draft("memory", {"node": seat.node}, made=(made,)))
                self._relate(made)
            return given

        return replace(notes, inject=give)

    def write_start(self) -> None:
        """Write what the run starts from: when that cannot be written, nothing is run."""
        self._flush()

    def node_finished(self, ctx: RunContext, files: str | None = None) -> None:
        """A node has ended: write it, and all that was said and tried in it.

        `files` names the snapshot that holds the workspace as it is now, if there is one.
        """
        for node in self._request.definition.nodes:
            if node.name in ctx.results and node.name not in self._known:
                self._node_ended(node, ctx)
        if files is not None and files != self._files:
            self._waiting.append(self._draft("snapshot", {"files": files}, (self._workspace,)))
            self._files = files
        self._flush()

    def run_finished(self, report: RunReport) -> None:
        """The run is over, however it ended."""
        self._egress_events()
        body = json.loads(json.dumps(to_json(report)))
        for heavy in ("nodes", "intent"):
            body.pop(heavy)
        made = self._made(json.dumps(body), f"report of {self._run_id}", (self._workspace,))
        self._waiting.append(self._draft("report", body, (self._workspace,), (made,)))
        self._flush()

    def _node_ended(self, node: Node, ctx: RunContext) -> None:
        """Tell of all that was said in it, a little at a time, then of it and what is inside it."""
        parts = [part for part in (*inner_nodes(node), node) if part.name in ctx.results]
        again = node.name in self._told
        rules = self._rules()
        telling = {
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
            heard = telling.get(node_of_event(line))
            if heard is not None:
                self._tell([] if again else heard.hear(line))
        for part in parts:
            view = telling[part.name].view if part.name in telling else None
            draft = self._part_ended(part, ctx.results[part.name], view)
            self._tell([] if again else [draft])
        if again:
            self._waiting.clear()
        self._known |= ctx.results.keys()

    def _tell(self, drafts: Sequence[Draft]) -> None:
        self._waiting += drafts
        if len(self._waiting) >= _AT_ONCE:
            self._flush()

    def _part_ended(self, node: Node, result: NodeResult, view: Sequence[str] | None) -> Draft:
        """`view` is what an agent's result was made in view of; None where no agent worked."""
        came_in = self._egress_events()
        inputs = self._inputs(node)
        seen = [entity.id for entity in inputs] if view is None else view
        seen = [*seen, *(entity.id for entity in came_in)]
        text = "\n".join(filter(None, (result.error, result.output)))
        label = join_labels(entity.label for entity in (*inputs, *came_in))
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
        return self._draft_of(body, seen, made)

    def _draft_of(self, body: Mapping[str, Json], seen: Sequence[str], made: Entity) -> Draft:
        return Draft(
            kind="node", run_id=self._run_id, body=body, consumes=tuple(seen), produces=(made,)
        )

    def _inputs(self, node: Node) -> tuple[Entity, ...]:
        """What the node could see. The first sees all; what it makes carries that on."""
        first = not self._known
        agent = node.name in self._rules()
        held = (self._intent, self._memory, self._given.get(node.name))
        context = [entity for entity in held if entity is not None]
        return (self._workspace, *(context if first or agent else ()))

    def _rules(self) -> Mapping[str, NodeRules]:
        known = node_rules(self._request, self._bounds)
        return {name: replace(one, read=self._read.get(name, ())) for name, one in known.items()}

    def _egress_events(self) -> list[Entity]:
        """Write what was tried since the last time; gives the places that content came from."""
        came: dict[str, Entity] = {}
        for line in self._egress.lines():
            host = str(line.get("host", ""))
            body: dict[str, Json] = {k: v for k, v in line.items() if isinstance(v, str | int)}
            made: tuple[Entity, ...] = ()
            if line.get("kind") == "allowed" and host not in came:
                taint = Label(taint=frozenset({f"web:{host}"}))
                came[host] = Entity(content=host, label=taint, origin=f"web {self._run_id}")
                made = (came[host],)
            self._waiting.append(self._draft("egress", body, (self._workspace,), made))
        return list(came.values())

    def _read_intent(self) -> Entity:
        where = self._request.intent_from
        taint = frozenset({where} if where else ())
        said = self._redact(self._request.intent)
        return text_entity(said, origin=where or "prompt", label=Label(taint=taint))

    def _read_repository(self, commit: str) -> Entity:
        name = repo_name(self._request.repo)
        label = Label(taint=frozenset({f"repo:{name}"}))
        content = {"repository": self._redact(redact_url(self._request.repo)), "commit": commit}
        return Entity(content=content, label=label, origin=f"repository {name}")

    def _relate(self, shown: Entity) -> None:
        """What memory showed relates to the intent that it was looked for by."""
        self._waiting.append(self._draft("relation", {"kind": "RELATES_TO"}, (shown, self._intent)))

    def _made(self, text: str, origin: str, of: Sequence[Entity]) -> Entity:
        label = join_labels(entity.label for entity in of)
        return text_entity(text, origin=origin, label=label, sources=[e.id for e in of])

    def _draft(
        self,
        kind: Kind,
        body: Mapping[str, Json],
        of: Sequence[Entity] = (),
        made: Sequence[Entity] = (),
    ) -> Draft:
        return Draft(
            kind=kind,
            run_id=self._run_id,
            body=body,
            consumes=tuple(entity.id for entity in of),
            produces=tuple(made),
        )

    def _flush(self) -> None:
        self._append(self._waiting)
        self._waiting = []


class _Tail:
    """The lines that were added to a file since the last time; half a line waits for its end."""

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
