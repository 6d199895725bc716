"""One call of a step: permitted by the policy or by a person, composed if it is to be, done."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from contracts.entity import Entity, derive
from contracts.errors import HarnessError
from contracts.json import Json
from contracts.tool import Denied
from policy.errors import OperationFailed, ResultNotSaved, WaitingForPerson
from policy.plan.apply import run_operation, skipped_result, step_origin
from policy.plan.approval_request import ApprovalReply, ApprovalRequest, Approver
from policy.plan.plan_log import PlanLog
from policy.plan.references import ReferenceMissing
from policy.plan.registry import Operation
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, resolve
from policy.plan.step_check import action_digest, check_step, policy_version
from policy.plan.values import RunValues
from policy.types import QUESTION_RULE, PlanStep

Compose = Callable[[PlanStep, Operation, Mapping[str, Json]], Mapping[str, Json]]
"""Lets the executor's model write a step's content; gives all arguments as it wrote them.

It is given the step and the arguments that the engine filled, and nothing else.

Raises:
    HarnessError: it cannot be asked, or what it wrote is no call of the operation.
"""


class StepStopped(Exception):
    """A call that may not be made, or not yet."""

    def __init__(
        self, status: Literal["denied", "waiting"], denied: Denied, said: str = ""
    ) -> None:
        super().__init__(f"{denied.reason} ({said})" if said else denied.reason)
        self.status = status
        self.denied = denied


class AuthorizedCall(NamedTuple):
    """A call that may be made, and what a person was asked and said, if it took one."""

    call: StepCall
    approved: ApprovalRequest | None = None
    answer: ApprovalReply | None = None


class StepAuthorizer:
    """Decides about calls of a run, and makes those that are permitted."""

    def __init__(
        self,
        world: Callable[[], PolicyContext],
        held: RunValues,
        log: PlanLog,
        *,
        person: Approver,
        propose: Compose | None,
    ) -> None:
        self._world = world
        self._held = held
        self._log = log
        self._person = person
        self._propose = propose

    def policy_denial(self, call: StepCall) -> Denied | None:
        """What the policy says against the call now; it is noted."""
        world = self._world()
        decision = check_step(call, world)
        self._log.record_decision(call, world, decision)
        return decision if isinstance(decision, Denied) else None

    def authorize(self, call: StepCall, number: int) -> AuthorizedCall:
        """The call as it may be made: item `number` of its step, composed and permitted.

        Raises:
            Stopped: it is denied, or waits for a person.
        """
        if self._log.earlier_result(call.index, number):
            return AuthorizedCall(call)
        again = replace(call, failed_attempts=self._log.earlier_failures(call.index, number))
        if call.step.compose is None:
            return self._permitted(again)
        self._permitted(call)
        return self._permitted(replace(again, proposed=self._composed(call, number)))

    def execute(self, ready: AuthorizedCall, number: int) -> Entity:
        """Make the call, again if the step says so, and give what it made.

        Raises:
            Stopped: the policy does not let it be tried again.
            OperationFailed: it was begun before a break, and may have happened.
            HarnessError: it failed.
        """
        call = ready.call
        before = self._log.earlier_result(call.index, number)
        if before is not None:
            return before
        if self._log.was_started(call.index, number):
            raise OperationFailed(
                f"{call.step.op} was begun before the run was interrupted: it may have "
                "happened, so it is not done again"
            )
        for left in reversed(range(call.step.retry + 1 - len(call.failed_attempts))):
            resolved = self._resolved(call)
            self._use(ready, resolved)
            try:
                made = self._once(call, number, resolved)
            except WaitingForPerson as error:
                raise StepStopped(
                    "waiting", Denied(reason=str(error), rule=QUESTION_RULE)
                ) from error
            except HarnessError as error:
                if not left or isinstance(error, ResultNotSaved):
                    raise
                name = f"step{call.index} failed"
                why = derive(str(error), origin=name, sources=resolved.used)
                self._log.record_failure(call.index, number, why)
                call = replace(call, failed_attempts=(*call.failed_attempts, self._kept(why)))
                ready = self._permitted(call)
            else:
                self._log.record_result(call.index, number, made)
                return self._kept(made)
        raise AssertionError("a step is tried at least once")

    def skip(self, call: StepCall) -> Entity | None:
        """What a call that is passed over leaves: no content, but the labels it would have."""
        resolved = resolve(call, self._world())
        return (
            None
            if isinstance(resolved, Denied)
            else self._kept(skipped_result(resolved, call.index))
        )

    def _once(self, call: StepCall, number: int, resolved: ResolvedCall) -> Entity:
        operation = resolved.operation
        if operation.effect != "read":
            self._log.record_start(call.index, number, resolved)
        if operation.effect == "write" and operation.place:
            self._held.add_to_place(
                operation.place,
                resolved.used,
                origin=step_origin(call.step, call.index),
                also=operation.label_of(resolved.arguments),
            )
        return run_operation(resolved, call.index)

    def _permitted(self, call: StepCall) -> AuthorizedCall:
        denied = self.policy_denial(call)
        if denied is None:
            return AuthorizedCall(call)
        resolved = resolve(call, self._world())
        if isinstance(resolved, Denied):
            raise StepStopped("denied", denied)
        try:
            question = self._question(call, resolved, denied)
        except ReferenceMissing as error:
            raise StepStopped("denied", denied, f"and there is nothing at /{error}") from error
        answer = self._person.ask(question)
        if answer.status != "approved":
            raise StepStopped(answer.status, denied, answer.reason)
        return AuthorizedCall(call, question, answer)

    def _use(self, ready: AuthorizedCall, resolved: ResolvedCall) -> None:
        question = ready.approved
        if question is None or ready.answer is None:
            return
        if not self._person.consume(question):
            raise StepStopped("waiting", question.denied, "the approval is not there any more")
        named = {**resolved.control_entities, **resolved.argument_entities}
        for argument in dict.fromkeys(one.argument for one in question.denied.denials):
            for entity in named.get(argument.removeprefix("/"), ()):
                if entity.label.taint:
                    self._log.record_endorsement(
                        entity, argument, answer=ready.answer, question=question
                    )

    def _question(self, call: StepCall, resolved: ResolvedCall, denied: Denied) -> ApprovalRequest:
        return ApprovalRequest(
            action=action_digest(resolved, policy_version(self._world())),
            run_id=self._log.run_id,
            step=call.index,
            op=call.step.op,
            arguments=resolved.arguments,
            denied=denied,
        )

    def _composed(self, call: StepCall, number: int) -> Mapping[str, Json]:
        written = self._log.earlier_composed(call.index, number)
        if written is None:
            if self._propose is None:
                raise OperationFailed(f"step {call.index} is to be composed, by nobody")
            resolved = self._resolved(call)
            args = self._propose(call.step, resolved.operation, resolved.arguments)
            name = f"step{call.index} composed"
            written = self._kept(derive(dict(args), origin=name, sources=resolved.used))
            self._log.record_composed(call.index, number, written)
        if not isinstance(written.content, Mapping):
            raise OperationFailed(f"what was composed for step {call.index} is no arguments")
        return written.content

    def _kept(self, entity: Entity) -> Entity:
        self._held.add(None, entity)
        return entity

    def _resolved(self, call: StepCall) -> ResolvedCall:
        resolved = resolve(call, self._world())
        if isinstance(resolved, Denied):
            raise StepStopped("denied", resolved)
        return resolved
