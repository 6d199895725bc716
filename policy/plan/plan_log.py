"""The state of a plan's run: labelled values, and the record by which an interrupted run continues.

The record is in the event log.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from contracts.entity import EMPTY_LABEL, Entity, Label, derive, endorse
from contracts.json import Json
from contracts.tool import Decision, Denied
from policy.log.events import Append, Draft, Event, Kind
from policy.plan.decision_record import PLAN_POLICY_VERSION, decision_inputs
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, resolve
from policy.types import ApprovalReply, ApprovalRequest, denial_to_json

StepStatus = Literal["done", "skipped", "denied", "waiting", "failed"]
FINAL_STATUSES = ("done", "skipped", "denied", "failed")
_STATUSES: dict[str, StepStatus] = {status: status for status in get_args(StepStatus)}

Call = tuple[int, int]
"""A call: the index of its step, and its number within `foreach`."""


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """The end of a step: `entity` is its result, `denied` the policy's denial."""

    index: int
    status: StepStatus
    reason: str = ""
    entity: Entity | None = None
    denied: Denied | None = None


class PlanLog:
    """The record of one run. `past` are its events so far, `entities` those that they produced.

    `results`, `composed` (the arguments that a model wrote) and `failures` are those of each call
    so far. `unfinished` are the calls of an earlier attempt whose end was not recorded.
    """

    def __init__(
        self,
        run_id: str,
        append: Append,
        past: Iterable[Event] = (),
        entities: Mapping[str, Entity] | None = None,
    ) -> None:
        self.run_id = run_id
        self._append = append
        self.earlier_steps: dict[int, StepOutcome] = {}
        self.earlier_values: dict[str, Entity] = {}
        self.results: dict[Call, Entity] = {}
        self.composed: dict[Call, Entity] = {}
        self.unfinished: set[Call] = set()
        self.failures: defaultdict[Call, tuple[Entity, ...]] = defaultdict(tuple)
        self._recorded = set(entities or ())
        for event in past:
            self._read(event, entities or {})

    def record_entity(self, entity: Entity, name: str | None) -> None:
        """Record an entity from outside, or derived from others; each entity only once."""
        if entity.id not in self._recorded:
            kind: Kind = "step" if entity.sources else "source"
            self._record(kind, {"origin": entity.origin, "name": name}, entity.sources, entity)

    def record_outcome(self, outcome: StepOutcome) -> None:
        """Record that a step ended, or waits for a person."""
        body: dict[str, Json] = {
            "step": outcome.index,
            "status": outcome.status,
            "reason": outcome.reason,
        }
        made = outcome.entity
        self._record("step", body, made.sources if made else (), made)

    def record_decision(self, call: StepCall, context: PolicyContext, decision: Decision) -> None:
        """Record a decision of the policy, with everything that is needed to make it again."""
        resolved = resolve(call, context)
        body: dict[str, Json] = {
            "step": call.index,
            "policy": PLAN_POLICY_VERSION,
            "verdict": "allowed",
            "question": decision_inputs(call, context),
        }
        if isinstance(decision, Denied):
            body |= {"verdict": "denied", **denial_to_json(decision)}
        used = () if isinstance(resolved, Denied) else resolved.used
        self._record("decision", body, tuple(entity.id for entity in used))

    def record_endorsement(
        self, entity: Entity, argument: str, *, request: ApprovalRequest, reply: ApprovalReply
    ) -> None:
        """Record that a person vouched for the value of an argument, for one action."""
        body: dict[str, Json] = {
            "step": request.step,
            "approval": reply.approval,
            "action": request.action,
            "argument": argument,
            "by": reply.by,
        }
        self._record("endorsement", body, (entity.id,), endorse(entity, by=reply.by))

    def record_start(self, call: Call, resolved: ResolvedCall) -> None:
        """Record that a call which must not be repeated is about to be executed."""
        body = {**_call_json(call), "op": resolved.step.op}
        self._record("tool_call", body, tuple(entity.id for entity in resolved.used))

    def record_result(self, call: Call, entity: Entity) -> None:
        """Record the result of a call."""
        self.results[call] = entity
        self._record("tool_call", {**_call_json(call), "made": entity.id}, entity.sources, entity)

    def record_failure(self, call: Call, failure: Entity) -> None:
        """Record that an attempt failed and may be repeated."""
        self.failures[call] += (failure,)
        body = {**_call_json(call), "failed": failure.id}
        self._record("tool_call", body, failure.sources, failure)

    def record_composed(self, call: Call, entity: Entity) -> None:
        """Record the arguments that a model wrote."""
        self.composed[call] = entity
        body = {**_call_json(call), "wrote": entity.id}
        self._record("model_call", body, entity.sources, entity)

    def _record(
        self,
        kind: Kind,
        body: dict[str, Json],
        used: tuple[str, ...],
        made: Entity | None = None,
    ) -> None:
        if made is not None:
            self._recorded.add(made.id)
        produces = (made,) if made else ()
        self._append(
            Draft(kind=kind, run_id=self.run_id, body=body, consumes=used, produces=produces)
        )

    def _read(self, event: Event, entities: Mapping[str, Entity]) -> None:
        made = next((entities[name] for name in event.produces if name in entities), None)
        match event.kind, event.body:
            case "step" | "source", {"name": str(name)} if made and _is_kept(name):
                self.earlier_values[name] = made
            case "step", {"step": int(index), "status": str(word), "reason": str(reason)} if (
                word in _STATUSES
            ):
                self.earlier_steps[index] = StepOutcome(
                    index=index, status=_STATUSES[word], reason=reason, entity=made
                )
            case "tool_call", {"step": int(index), "item": int(number), "made": str()} if made:
                self.results[index, number] = made
                self.unfinished.discard((index, number))
            case "tool_call", {"step": int(index), "item": int(number), "failed": str()} if made:
                self.failures[index, number] += (made,)
                self.unfinished.discard((index, number))
            case "model_call", {"step": int(index), "item": int(number), "wrote": str()} if made:
                self.composed[index, number] = made
            case "tool_call", {"step": int(index), "item": int(number), "op": str()}:
                self.unfinished.add((index, number))


def _is_kept(name: str) -> bool:
    """Return True for places and for items of results; whole results are in `earlier_steps`."""
    return name.startswith("place.") or "/" in name


def _call_json(call: Call) -> dict[str, Json]:
    return {"step": call[0], "item": call[1]}


class RunValues:
    """Values by the names that references use; thread-safe.

    A place, such as the workspace, only gains tags. A step that works in a place has exclusive
    access to it, so that no decision is made on a label that is about to change. `record` is
    called with each new entity and its name.
    """

    def __init__(
        self,
        values: Mapping[str, Entity],
        entities: Iterable[Entity] = (),
        *,
        record: Callable[[Entity, str | None], None],
    ) -> None:
        self._record = record
        for name, entity in values.items():
            record(entity, name)
        self._values = dict(values)
        self._entities = {entity.id: entity for entity in (*entities, *values.values())}
        self._lock = threading.Lock()
        places = (name for name in values if name.startswith("place."))
        self._place_locks = {name: threading.RLock() for name in places}

    def values(self) -> Mapping[str, Entity]:
        """Return a snapshot of all values by name."""
        with self._lock:
            return MappingProxyType(dict(self._values))

    def entities(self) -> Mapping[str, Entity]:
        """Return a snapshot of all entities by id."""
        with self._lock:
            return MappingProxyType(dict(self._entities))

    def add(self, name: str | None, entity: Entity) -> None:
        """Record and store an entity, under a name if references may use it."""
        self._record(entity, name)
        with self._lock:
            self._entities[entity.id] = entity
            if name is not None:
                self._values[name] = entity

    @contextmanager
    def exclusive(self, place: str | None) -> Iterator[None]:
        """Hold the lock of a place, if there is one."""
        lock = self._place_locks.get(f"place.{place}")
        if lock is None:
            yield
            return
        with lock:
            yield

    def add_to_place(
        self, place: str, sources: Iterable[Entity], *, origin: str, extra: Label = EMPTY_LABEL
    ) -> None:
        """Add the tags of everything that is written to the place, and the tags of `extra`."""
        name = f"place.{place}"
        before = self.values()[name]
        new = [e for e in sources if e.id != before.id and not before.label.covers(e.label)]
        if new or not before.label.covers(extra):
            self.add(
                name, derive(before.content, origin=origin, sources=[before, *new], extra=extra)
            )
