"""Runs the steps of one plan. Each step is decided on right before it runs.

This module knows nothing of Prefect: `flows/plans/compile.py` calls `run_step` once for each step,
in the order of the plan's dependencies and in several threads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from contracts.entity import Entity, Label, derive
from contracts.errors import HarnessError
from contracts.tool import Denied
from policy.authority import Authority
from policy.errors import OperationFailed
from policy.plan.authorize import (
    AuthorizedCall,
    Compose,
    StepAuthorizer,
    StepStopped,
    step_origin,
)
from policy.plan.plan_log import FINAL_STATUSES, PlanLog, RunValues, StepOutcome, StepStatus
from policy.plan.references import ReferenceMissing, value_at
from policy.plan.registry import Registry
from policy.plan.resolve import FoundValue, PolicyContext, StepCall, find_value
from policy.plan.step_check import undeclared_caps
from policy.types import NO_APPROVER, Approver, Plan, PlanStep, Ref


class PlanRun:
    """One run of one plan. `run_step` may be called from several threads.

    `log` holds the events of the run, also those before an interruption; finished steps are not
    repeated. `known` are the entities of these events. `compose=None` means that no model writes
    the content of steps with `compose`.
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
        approver: Approver = NO_APPROVER,
        compose: Compose | None = None,
    ) -> None:
        self.plan = plan
        self._registry = registry
        self._authority = authority
        self._log = log
        self._values = RunValues({**values, **log.earlier_values}, known, record=log.record_entity)
        self._authorizer = StepAuthorizer(
            self.context, self._values, log, approver=approver, compose=compose
        )
        self._outcomes: dict[int, StepOutcome] = {}
        for outcome in log.earlier_steps.values():
            if outcome.status in FINAL_STATUSES:
                self._store(outcome)

    @property
    def outcomes(self) -> Mapping[int, StepOutcome]:
        """The outcomes of the steps that have ended or wait for a person."""
        return MappingProxyType(dict(self._outcomes))

    def context(self) -> PolicyContext:
        """Return everything that the policy decides by at this moment."""
        return PolicyContext(
            registry=self._registry,
            authority=self._authority,
            plan=self.plan.id,
            values=self._values.values(),
            entities=self._values.entities(),
        )

    def label(self, name: str) -> Label:
        """Return the present label of a value, such as `place.workspace`."""
        return self._values.values()[name].label

    def run_step(self, index: int) -> StepOutcome:
        """Decide on the step, run it if it is authorized, and store its result.

        A finished step is not run again. A step that waits for a person may be run again.
        """
        before = self._outcomes.get(index)
        if before is not None and before.status in FINAL_STATUSES:
            return before
        outcome = self._outcome(index)
        self._log.record_outcome(outcome)
        self._store(outcome)
        return outcome

    def _store(self, outcome: StepOutcome) -> None:
        if outcome.entity is not None:
            self._values.add(f"step{outcome.index}", outcome.entity)
        if self.plan.steps[outcome.index].foreach is not None:
            for (index, number), made in self._log.results.copy().items():
                if index == outcome.index:
                    self._values.add(f"step{index}/{number}", made)
        self._outcomes[outcome.index] = outcome

    def _outcome(self, index: int) -> StepOutcome:
        deps = [(dep, self._outcomes.get(dep)) for dep in self.plan.steps[index].deps]
        for dep, ended in deps:
            how = ended.status if ended else "not run"
            if how not in ("done", "skipped") or (ended and ended.entity is None):
                status: StepStatus = "waiting" if how == "waiting" else "skipped"
                return StepOutcome(index=index, status=status, reason=f"step {dep} is {how}")
        if any(ended.status == "skipped" for _, ended in deps if ended):
            return self._skipped(index, "a step that it depends on was skipped")
        operation = self._registry.get(self.plan.steps[index].op)
        try:
            # Held from decision to action: no other step may taint the place in between.
            with self._values.exclusive(operation.place if operation else None):
                return self._run(index)
        except StepStopped as stopped:
            return StepOutcome(
                index=index, status=stopped.status, reason=str(stopped), denied=stopped.denied
            )
        except ReferenceMissing as error:
            reason = f"there is no value at /{error}"
            return StepOutcome(index=index, status="failed", reason=reason)
        except HarnessError as error:
            return StepOutcome(index=index, status="failed", reason=str(error))

    def _run(self, index: int) -> StepOutcome:
        """Run a step whose dependencies are done.

        An untrusted value of `when` or `foreach` is evaluated only after the decision.
        """
        step = self.plan.steps[index]
        not_true = f"{step.when} is not true"
        if self._is_trusted(step.when) and not self._is_true(step.when):
            return self._skipped(index, not_true)
        if step.foreach is None:
            calls = [self._authorizer.authorize(StepCall(plan=self.plan, index=index), 0)]
        else:
            calls = self._calls_for_each(index, step.foreach)
        if not self._is_true(step.when):
            return self._skipped(index, not_true)
        made = [self._authorizer.execute(call, number) for number, call in enumerate(calls)]
        entity = made[0] if step.foreach is None else self._joined_results(made, index)
        denied = _undeclared_tags(entity, step)
        if denied is not None:
            return StepOutcome(index=index, status="denied", reason=denied.reason, denied=denied)
        return StepOutcome(index=index, status="done", entity=entity)

    def _skipped(self, index: int, reason: str) -> StepOutcome:
        """Skip a step because of its own `when`, or that of a step before it.

        The policy still decides on it, and its empty result has the label of a real one.
        Otherwise a later decision would reveal the value of `when`.
        """
        call = StepCall(plan=self.plan, index=index)
        foreach = call.step.foreach
        whole = self._value(foreach) if foreach else None
        if whole is not None:
            call = replace(call, item=self._empty_item(whole, str(foreach)))
        denied = self._authorizer.policy_denial(call)
        if denied is not None:
            return StepOutcome(index=index, status="denied", reason=denied.reason, denied=denied)
        entity = self._authorizer.skip(call)
        return StepOutcome(index=index, status="skipped", reason=reason, entity=entity)

    def _calls_for_each(self, index: int, foreach: Ref) -> list[AuthorizedCall]:
        """Authorize a call for each item; if one is stopped, none is executed."""
        call = StepCall(plan=self.plan, index=index)
        whole = self._value(foreach)
        if whole is None:
            self._authorizer.policy_denial(call)
            raise OperationFailed(f"{foreach} has no value")
        item = self._empty_item(whole, str(foreach))
        denied = None
        if whole.label.taint:
            denied = self._authorizer.policy_denial(replace(call, item=item))
        items = self._items(whole, foreach)
        # An empty list must not hide the denial: its length is untrusted content, too.
        if denied is not None and not items:
            raise StepStopped("denied", denied)
        return [
            self._authorizer.authorize(replace(call, item=item), number)
            for number, item in enumerate(items)
        ]

    def _empty_item(self, whole: Entity, origin: str) -> Entity:
        item = derive(None, origin=origin, sources=[whole])
        self._values.add(None, item)
        return item

    def _items(self, whole: Entity, foreach: Ref) -> list[Entity]:
        found = self._found(foreach)
        content = value_at(whole.content, found.path if found else ())
        if isinstance(content, str) or not isinstance(content, Sequence):
            raise OperationFailed(f"{foreach} is not a list, so foreach cannot use it")
        items: list[Entity] = []
        for number, value in enumerate(content):
            part = self._found(replace(foreach, path=(*foreach.path, str(number))))
            source = part.entity if part and not part.path else whole
            item = derive(value, origin=f"{foreach}/{number}", sources=[source])
            items.append(replace(item, part_of=whole.id))
            self._values.add(None, items[-1])
        return items

    def _joined_results(self, made: Sequence[Entity], index: int) -> Entity:
        step = self.plan.steps[index]
        whole = self._value(step.foreach) if step.foreach else None
        sources = [whole, *made] if whole else made
        contents = [entity.content for entity in made]
        return derive(contents, origin=step_origin(step, index), sources=sources)

    def _is_trusted(self, ref: Ref | None) -> bool:
        value = self._value(ref) if ref else None
        return value is not None and not value.label.taint

    def _is_true(self, ref: Ref | None) -> bool:
        found = self._found(ref) if ref else None
        return ref is None or (
            found is not None and bool(value_at(found.entity.content, found.path))
        )

    def _value(self, ref: Ref) -> Entity | None:
        found = self._found(ref)
        return found.entity if found else None

    def _found(self, ref: Ref) -> FoundValue | None:
        return find_value(ref, self._values.values())


def _undeclared_tags(entity: Entity, step: PlanStep) -> Denied | None:
    """Return a denial (C2) if the result carries a tag that the step does not declare."""
    extra = undeclared_caps(entity.label.caps, step)
    if not extra:
        return None
    return Denied(
        reason=f"the result carries {', '.join(sorted(extra))}, which the step does not declare",
        rule="C2",
        argument="/result",
        tags=extra,
        provenance=(entity.origin,),
    )
