"""What a run of a plan did, noted in the event log as it happens and read again after a break."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from contracts.entity import Entity, endorsed
from contracts.json import Json
from contracts.tool import Decision, Denied
from policy.denial_json import denial_json
from policy.log.events import Draft, Event, Kind
from policy.plan.decision_record import POLICY, question_of
from policy.plan.question import Answer, Question
from policy.plan.resolve import Call, Resolved, World, resolve

Append = Callable[[Draft], object]


class Ended(NamedTuple):
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
        self.ended_before: dict[int, Ended] = {}
        self._made: dict[tuple[int, int], Entity] = {}
        self._written: dict[tuple[int, int], Entity] = {}
        self._begun: set[tuple[int, int]] = set()
        self._failed: dict[tuple[int, int], tuple[Entity, ...]] = {}
        self.places_before: dict[str, Entity] = {}
        self._known = set(entities or ())
        for event in past:
            self._read(event, entities or {})

    def came(self, entity: Entity, name: str | None) -> None:
        """An entity is there: from outside, or made of others on the way; noted once."""
        if entity.id not in self._known:
            kind: Kind = "step" if entity.sources else "source"
            body: dict[str, Json] = {"origin": entity.origin, "name": name}
            self._note(kind, body, entity.sources, entity)

    def ended(self, index: int, status: str, reason: str, entity: Entity | None) -> None:
        """A step is over, or waits."""
        body: dict[str, Json] = {"step": index, "status": status, "reason": reason}
        sources = entity.sources if entity else ()
        self._note("step", body, sources, entity)

    def decided(self, call: Call, world: World, decision: Decision) -> None:
        """The policy decided about a call; the note holds all that it went by."""
        resolved = resolve(call, world)
        body: dict[str, Json] = {
            "step": call.index,
            "policy": POLICY,
            "verdict": "allowed",
            "question": question_of(call, world),
        }
        if isinstance(decision, Denied):
            body |= {"verdict": "denied", **denial_json(decision)}
        used = () if isinstance(resolved, Denied) else resolved.used
        self._note("decision", body, tuple(entity.id for entity in used), None)

    def endorsed(
        self, entity: Entity, argument: str, *, answer: Answer, question: Question
    ) -> None:
        """A person vouched for what this argument holds, for this one action."""
        body: dict[str, Json] = {
            "step": question.step,
            "approval": answer.approval,
            "action": question.action,
            "argument": argument,
            "by": answer.by,
        }
        self._note("endorsement", body, (entity.id,), endorsed(entity, by=answer.by))

    def begins(self, index: int, number: int, resolved: Resolved) -> None:
        """Something that is not to be done twice is about to be done."""
        body: dict[str, Json] = {"step": index, "item": number, "op": resolved.step.op}
        self._note("tool_call", body, tuple(entity.id for entity in resolved.used), None)

    def made(self, index: int, number: int, entity: Entity) -> None:
        """A call of a step gave this."""
        self._made[index, number] = entity
        body: dict[str, Json] = {"step": index, "item": number, "made": entity.id}
        self._note("tool_call", body, entity.sources, entity)

    def failed(self, index: int, number: int, why: Entity) -> None:
        """A call of a step failed, and may be made again."""
        self._failed[index, number] = (*self.failed_before(index, number), why)
        body: dict[str, Json] = {"step": index, "item": number, "failed": why.id}
        self._note("tool_call", body, why.sources, why)

    def wrote(self, index: int, number: int, entity: Entity) -> None:
        """A model wrote these arguments for a step."""
        body: dict[str, Json] = {"step": index, "item": number, "wrote": entity.id}
        self._note("model_call", body, entity.sources, entity)

    def made_before(self, index: int, number: int) -> Entity | None:
        """What this call gave before the run was interrupted, or the step stopped."""
        return self._made.get((index, number))

    def written_before(self, index: int, number: int) -> Entity | None:
        """What a model wrote for this call before the run was interrupted."""
        return self._written.get((index, number))

    def failed_before(self, index: int, number: int) -> tuple[Entity, ...]:
        """Why this call failed before that, once for each time."""
        return self._failed.get((index, number), ())

    def begun_before(self, index: int, number: int) -> bool:
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
                self.places_before[name] = made
            case "step", {"step": int(index), "status": str(status), "reason": str(reason)}:
                self.ended_before[index] = Ended(status, reason, made)
            case "tool_call", {"step": int(index), "item": int(number), "made": str()} if made:
                self._made[index, number] = made
                self._begun.discard((index, number))
            case "tool_call", {"step": int(index), "item": int(number), "failed": str()} if made:
                self._failed[index, number] = (*self.failed_before(index, number), made)
                self._begun.discard((index, number))
            case "model_call", {"step": int(index), "item": int(number), "wrote": str()} if made:
                self._written[index, number] = made
            case "tool_call", {"step": int(index), "item": int(number), "op": str()}:
                self._begun.add((index, number))
