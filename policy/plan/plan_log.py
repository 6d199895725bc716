"""Records a plan's run in the event log, and reads the record to continue after an interruption."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from contracts.entity import Entity, endorse
from contracts.json import Json
from contracts.tool import Decision, Denied
from policy.log.events import Append, Draft, Event, Kind
from policy.plan.decision_record import PLAN_POLICY_VERSION, decision_inputs
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, resolve
from policy.types import ApprovalReply, ApprovalRequest, denial_to_json


class EndedStep(NamedTuple):
    """The recorded end of a step."""

    status: str
    reason: str
    entity: Entity | None


class PlanLog:
    """The record of one run. `past` are its events so far, `entities` those that they produced.

    A call is identified by the index of its step and its number within `foreach`.
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
        self.earlier_steps: dict[int, EndedStep] = {}
        self.earlier_places: dict[str, Entity] = {}
        self._results: dict[tuple[int, int], Entity] = {}
        self._composed: dict[tuple[int, int], Entity] = {}
        self._started: set[tuple[int, int]] = set()
        self._failures: dict[tuple[int, int], tuple[Entity, ...]] = {}
        self._recorded = set(entities or ())
        for event in past:
            self._read(event, entities or {})

    def record_entity(self, entity: Entity, name: str | None) -> None:
        """Record an entity from outside, or derived from others; each entity only once."""
        if entity.id not in self._recorded:
            kind: Kind = "step" if entity.sources else "source"
            self._record(kind, {"origin": entity.origin, "name": name}, entity.sources, entity)

    def record_step(self, index: int, status: str, reason: str, entity: Entity | None) -> None:
        """Record that a step ended, or waits for a person."""
        body: dict[str, Json] = {"step": index, "status": status, "reason": reason}
        self._record("step", body, entity.sources if entity else (), entity)

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

    def record_start(self, index: int, number: int, resolved: ResolvedCall) -> None:
        """Record that a call which must not be repeated is about to be executed."""
        body: dict[str, Json] = {"step": index, "item": number, "op": resolved.step.op}
        self._record("tool_call", body, tuple(entity.id for entity in resolved.used))

    def record_result(self, index: int, number: int, entity: Entity) -> None:
        """Record the result of a call."""
        self._results[index, number] = entity
        body: dict[str, Json] = {"step": index, "item": number, "made": entity.id}
        self._record("tool_call", body, entity.sources, entity)

    def record_failure(self, index: int, number: int, failure: Entity) -> None:
        """Record that an attempt failed and may be repeated."""
        self._failures[index, number] = (*self.earlier_failures(index, number), failure)
        body: dict[str, Json] = {"step": index, "item": number, "failed": failure.id}
        self._record("tool_call", body, failure.sources, failure)

    def record_composed(self, index: int, number: int, entity: Entity) -> None:
        """Record the arguments that a model wrote."""
        body: dict[str, Json] = {"step": index, "item": number, "wrote": entity.id}
        self._record("model_call", body, entity.sources, entity)

    def earlier_result(self, index: int, number: int) -> Entity | None:
        """Return the result of this call if it was executed before."""
        return self._results.get((index, number))

    def earlier_composed(self, index: int, number: int) -> Entity | None:
        """Return the arguments that a model wrote for this call before."""
        return self._composed.get((index, number))

    def earlier_failures(self, index: int, number: int) -> tuple[Entity, ...]:
        """Return the failures of earlier attempts of this call."""
        return self._failures.get((index, number), ())

    def was_started(self, index: int, number: int) -> bool:
        """Return True if this call was started before, and its end was not recorded."""
        return (index, number) in self._started

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
            case "step" | "source", {"name": str(name)} if made and name.startswith("place."):
                self.earlier_places[name] = made
            case "step", {"step": int(index), "status": str(status), "reason": str(reason)}:
                self.earlier_steps[index] = EndedStep(status, reason, made)
            case "tool_call", {"step": int(index), "item": int(number), "made": str()} if made:
                self._results[index, number] = made
                self._started.discard((index, number))
            case "tool_call", {"step": int(index), "item": int(number), "failed": str()} if made:
                self._failures[index, number] = (*self.earlier_failures(index, number), made)
                self._started.discard((index, number))
            case "model_call", {"step": int(index), "item": int(number), "wrote": str()} if made:
                self._composed[index, number] = made
            case "tool_call", {"step": int(index), "item": int(number), "op": str()}:
                self._started.add((index, number))
