"""Runs the steps of one plan: each is decided on when it is about to run, then done or not.

Knows nothing of Prefect: `flows/plans/compile.py` calls `run_step` once for each step, in the order
of the plan's dependencies and in as many threads as it likes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, cast

from contracts.entity import Entity, Label, derive
from contracts.errors import HarnessError
from contracts.tool import Denied
from policy.authority import Authority
from policy.errors import OperationFailed
from policy.plan.apply import check_result, foreach_result, step_origin
from policy.plan.approval_request import NO_APPROVER, Approver
from policy.plan.authorize import AuthorizedCall, Compose, StepAuthorizer, StepStopped
from policy.plan.plan_log import PlanLog
from policy.plan.references import ReferenceMissing, value_at
from policy.plan.registry import Registry
from policy.plan.resolve import PolicyContext, StepCall
from policy.plan.values import RunValues
from policy.types import Plan, Ref

StepStatus = Literal["done", "skipped", "denied", "waiting", "failed"]
FINAL_STATUSES = ("done", "skipped", "denied", "failed")


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """How a step ended. `entity` is its result; `denied` is what the policy said against it."""

    index: int
    status: StepStatus
    reason: str = ""
    entity: Entity | None = None
    denied: Denied | None = None


class PlanRun:
    """One run of one plan. `run_step` may be called from several threads.

    `log` holds what the run did, also before it was interrupted: what is over is not done
    again; `known` are the entities of that time. `propose=None` means that nobody writes the
    content of steps with `compose`.
    """

    def __init__(
        self,
        plan: Plan,
        registry: Registry,
        authority: Authority,
        *,
        values: Mapping[str, Entity],
        log: PlanLog,
        known: Iterable[Entity] = (),
        person: Approver = NO_APPROVER,
        propose: Compose | None = None,
    ) -> None:
        self.plan = plan
        self._registry = registry
        self._authority = authority
        self._log = log
        self._held = RunValues({**values, **log.earlier_places}, known, note=log.record_entity)
        self._permit = StepAuthorizer(self.context, self._held, log, person=person, propose=propose)
        self._outcomes: dict[int, StepOutcome] = {}
        for index, ended in log.earlier_steps.items():
            if ended.status in FINAL_STATUSES:
                self._keep(
                    StepOutcome(
                        index=index,
                        status=cast(StepStatus, ended.status),  # one of OVER
                        reason=ended.reason,
                        entity=ended.entity,
                    )
                )

    @property
    def outcomes(self) -> Mapping[int, StepOutcome]:
        """How the steps ended that have ended, or wait."""
        return MappingProxyType(dict(self._outcomes))

    def context(self) -> PolicyContext:
        """What the policy knows now."""
        return PolicyContext(
            registry=self._registry,
            authority=self._authority,
            plan=self.plan.id,
            values=self._held.values(),
            entities=self._held.entities(),
        )

    def label(self, name: str) -> Label:
        """What a value carries now, such as `place.workspace`."""
        return self._held.values()[name].label

    def run_step(self, index: int) -> StepOutcome:
        """Decide about the step, run it if it may, and hold its result.

        A step that is over is not run again; one that waits for a person may be called again.
        """
        before = self._outcomes.get(index)
        if before is not None and before.status in FINAL_STATUSES:
            return before
        outcome = self._outcome(index)
        self._log.record_step(index, outcome.status, outcome.reason, outcome.entity)
        self._keep(outcome)
        return outcome

    def _keep(self, outcome: StepOutcome) -> None:
        if outcome.entity is not None:
            self._held.add(f"step{outcome.index}", outcome.entity)
        self._outcomes[outcome.index] = outcome

    def _outcome(self, index: int) -> StepOutcome:
        deps = [self._outcomes.get(dep) for dep in self.plan.steps[index].deps]
        for dep, ended in zip(self.plan.steps[index].deps, deps, strict=True):
            how = ended.status if ended else "not run"
            if how not in ("done", "skipped") or (ended and ended.entity is None):
                status: StepStatus = "waiting" if how == "waiting" else "skipped"
                return StepOutcome(index=index, status=status, reason=f"step {dep} is {how}")
        if any(ended.status == "skipped" for ended in deps if ended):
            return self._passed_over(index, "a step that it waits for was skipped")
        operation = self._registry.get(self.plan.steps[index].op)
        try:
            with self._held.exclusive(operation.place if operation else None):
                return self._run(index)
        except StepStopped as stopped:
            return StepOutcome(
                index=index, status=stopped.status, reason=str(stopped), denied=stopped.denied
            )
        except ReferenceMissing as error:
            return StepOutcome(index=index, status="failed", reason=f"there is nothing at /{error}")
        except HarnessError as error:
            return StepOutcome(index=index, status="failed", reason=str(error))

    def _run(self, index: int) -> StepOutcome:
        """What untrusted data says of `when` or `foreach` is looked at after the decision only."""
        step = self.plan.steps[index]
        told = f"{step.when} does not hold"
        if self._trusted(step.when) and not self._holds(step.when):
            return self._passed_over(index, told)
        if step.foreach is None:
            ready = [self._permit.authorize(StepCall(plan=self.plan, index=index), 0)]
        else:
            ready = self._each(index, step.foreach)
        if not self._holds(step.when):
            return self._passed_over(index, told)
        made = [self._permit.execute(call, number) for number, call in enumerate(ready)]
        entity = made[0] if step.foreach is None else self._gathered(made, index, step.foreach)
        decision = check_result(entity, step)
        if isinstance(decision, Denied):
            return StepOutcome(
                index=index, status="denied", reason=decision.reason, denied=decision
            )
        return StepOutcome(index=index, status="done", entity=entity)

    def _passed_over(self, index: int, reason: str) -> StepOutcome:
        """Not run, by its guard or that of a step before it.

        It is decided on all the same and holds what carries the labels that its result would
        have: nobody can tell from a later decision which way the guard went.
        """
        call = StepCall(plan=self.plan, index=index)
        ref = call.step.foreach
        whole = self._value(ref) if ref else None
        if whole is not None:
            call = replace(call, item=self._kept(derive(None, origin=str(ref), sources=[whole])))
        denied = self._permit.policy_denial(call)
        if denied is not None:
            return StepOutcome(index=index, status="denied", reason=denied.reason, denied=denied)
        entity = self._permit.skip(call)
        return StepOutcome(index=index, status="skipped", reason=reason, entity=entity)

    def _kept(self, entity: Entity) -> Entity:
        self._held.add(None, entity)
        return entity

    def _each(self, index: int, ref: Ref) -> list[AuthorizedCall]:
        """A call for each item, all of them permitted; one that stops stops them all."""
        call = StepCall(plan=self.plan, index=index)
        whole = self._value(ref)
        if whole is None:
            self._permit.policy_denial(call)
            raise OperationFailed(f"{ref} leads nowhere")
        nothing = self._kept(derive(None, origin=str(ref), sources=[whole]))
        denied = (
            self._permit.policy_denial(replace(call, item=nothing)) if whole.label.taint else None
        )
        items = self._items(whole, ref)
        if denied is not None and not items:
            raise StepStopped("denied", denied)
        return [self._permit.authorize(replace(call, item=item), n) for n, item in enumerate(items)]

    def _items(self, whole: Entity, ref: Ref) -> list[Entity]:
        content = value_at(whole.content, ref.path)
        if isinstance(content, str) or not isinstance(content, Sequence):
            raise OperationFailed(f"{ref} is no list, so there is nothing to do for each of it")
        parts = (
            derive(one, origin=f"{ref}/{number}", sources=[whole])
            for number, one in enumerate(content)
        )
        return [self._kept(replace(part, part_of=whole.id)) for part in parts]

    def _gathered(self, made: Sequence[Entity], index: int, ref: Ref) -> Entity:
        whole = self._value(ref)
        return foreach_result(
            made, of=[whole] if whole else [], origin=step_origin(self.plan.steps[index], index)
        )

    def _trusted(self, ref: Ref | None) -> bool:
        found = self._value(ref) if ref else None
        return found is not None and not found.label.taint

    def _holds(self, ref: Ref | None) -> bool:
        found = self._value(ref) if ref else None
        return ref is None or (found is not None and bool(value_at(found.content, ref.path)))

    def _value(self, ref: Ref) -> Entity | None:
        return self._held.values().get(ref.source)
