"""What a run of a plan did, noted in the event log as it happens and read again after a break."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from contracts.entity import Entity, endorse
from contracts.json import Json
from contracts.tool import Decision, Denied
from policy.denial_json import denial_to_json
from policy.log.events import Draft, Event, Kind
from policy.plan.approval_request import ApprovalReply, ApprovalRequest
from policy.plan.decision_record import PLAN_POLICY_VERSION, decision_inputs
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, resolve

Append = Callable[[Draft], object]


class EndedStep(NamedTuple):
    """How a step ended, as it was noted."""

    status: str
    reason: str
    entity: Entity | None


class PlanLog:
    """What one run of a plan did. `past` are its events so far, with the entities they produced."""

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
        self._made: dict[tuple[int, int], Entity] = {}
        self._written: dict[tuple[int, int], Entity] = {}
        self._begun: set[tuple[int, int]] = set()
        self._failed: dict[tuple[int, int], tuple[Entity, ...]] = {}
        self.earlier_places: dict[str, Entity] = {}
        self._known = set(entities or ())
        for event in past:
            self._read(event, entities or {})

    def record_entity(self, entity: Entity, name: str | None) -> None:
        """An entity is there: from outside, or made of others on the way; noted once."""
        if entity.id not in self._known:
            kind: Kind = "step" if entity.sources else "source"
            body: dict[str, Json] = {"origin": entity.origin, "name": name}
            self._note(kind, body, entity.sources, entity)

    def record_step(self, index: int, status: str, reason: str, entity: Entity | None) -> None:
        """A step is over, or waits."""
        body: dict[str, Json] = {"step": index, "status": status, "reason": reason}
        sources = entity.sources if entity else ()
        self._note("step", body, sources, entity)

    def record_decision(self, call: StepCall, world: PolicyContext, decision: Decision) -> None:
        """The policy decided about a call; the note holds all that it went by."""
        resolved = resolve(call, world)
        body: dict[str, Json] = {
            "step": call.index,
            "policy": PLAN_POLICY_VERSION,
            "verdict": "allowed",
            "question": decision_inputs(call, world),
        }
        if isinstance(decision, Denied):
            body |= {"verdict": "denied", **denial_to_json(decision)}
        used = () if isinstance(resolved, Denied) else resolved.used
        self._note("decision", body, tuple(entity.id for entity in used), None)

    def record_endorsement(
        self, entity: Entity, argument: str, *, answer: ApprovalReply, question: ApprovalRequest
    ) -> None:
        """A person vouched for what this argument holds, for this one action."""
        body: dict[str, Json] = {
            "step": question.step,
            "approval": answer.approval,
            "action": question.action,
            "argument": argument,
            "by": answer.by,
        }
        self._note("endorsement", body, (entity.id,), endorse(entity, by=answer.by))

    def record_start(self, index: int, number: int, resolved: ResolvedCall) -> None:
        """Something that is not to be done twice is about to be done."""
        body: dict[str, Json] = {"step": index, "item": number, "op": resolved.step.op}
        self._note("tool_call", body, tuple(entity.id for entity in resolved.used), None)

    def record_result(self, index: int, number: int, entity: Entity) -> None:
        """A call of a step gave this."""
        self._made[index, number] = entity
        body: dict[str, Json] = {"step": index, "item": number, "made": entity.id}
        self._note("tool_call", body, entity.sources, entity)

    def record_failure(self, index: int, number: int, why: Entity) -> None:
        """A call of a step failed, and may be made again."""
        self._failed[index, number] = (*self.earlier_failures(index, number), why)
        body: dict[str, Json] = {"step": index, "item": number, "failed": why.id}
        self._note("tool_call", body, why.sources, why)

    def record_composed(self, index: int, number: int, entity: Entity) -> None:
        """A model wrote these arguments for a step."""
        body: dict[str, Json] = {"step": index, "item": number, "wrote": entity.id}
        self._note("model_call", body, entity.sources, entity)

    def earlier_result(self, index: int, number: int) -> Entity | None:
        """What this call gave before the run was interrupted, or the step stopped."""
        return self._made.get((index, number))

    def earlier_composed(self, index: int, number: int) -> Entity | None:
        """What a model wrote for this call before the run was interrupted."""
        return self._written.get((index, number))

    def earlier_failures(self, index: int, number: int) -> tuple[Entity, ...]:
        """Why this call failed before that, once for each time."""
        return self._failed.get((index, number), ())

    def was_started(self, index: int, number: int) -> bool:
        """Whether this call was begun before, and nobody knows how it ended."""
        return (index, number) in self._begun

    def _note(
        self, kind: Kind, body: dict[str, Json], used: tuple[str, ...], made: Entity | None
    ) -> None:
        if made is not None:
            self._known.add(made.id)
        self._append(
            Draft(
                kind=kind,
                run_id=self.run_id,
                body=body,
                consumes=used,
                produces=(made,) if made else (),
            )
        )

    def _read(self, event: Event, entities: Mapping[str, Entity]) -> None:
        made = next((entities[one] for one in event.produces if one in entities), None)
        match event.kind, event.body:
            case "step" | "source", {"name": str(name)} if made and name.startswith("place."):
                self.earlier_places[name] = made
            case "step", {"step": int(index), "status": str(status), "reason": str(reason)}:
                self.earlier_steps[index] = EndedStep(status, reason, made)
            case "tool_call", {"step": int(index), "item": int(number), "made": str()} if made:
                self._made[index, number] = made
                self._begun.discard((index, number))
            case "tool_call", {"step": int(index), "item": int(number), "failed": str()} if made:
                self._failed[index, number] = (*self.earlier_failures(index, number), made)
                self._begun.discard((index, number))
            case "model_call", {"step": int(index), "item": int(number), "wrote": str()} if made:
                self._written[index, number] = made
            case "tool_call", {"step": int(index), "item": int(number), "op": str()}:
                self._begun.add((index, number))
