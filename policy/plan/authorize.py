"""One call of a step: permitted by the policy or by a person, composed if it is to be, done."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from contracts.entity import Entity, derived
from contracts.errors import HarnessError
from contracts.json import Json
from contracts.tool import Denied
from policy.errors import NotKept, OperationFailed, PersonAwaited
from policy.plan.apply import origin, passed_over, perform
from policy.plan.plan_log import PlanLog
from policy.plan.question import Answer, Person, Question
from policy.plan.references import Missing
from policy.plan.registry import Operation
from policy.plan.resolve import Call, Resolved, World, resolve
from policy.plan.step_check import action_of, check_step, policy_version
from policy.plan.values import Held
from policy.types import QUESTION, Step

Propose = Callable[[Step, Operation, Mapping[str, Json]], Mapping[str, Json]]
"""Lets the executor's model write a step's content; gives all arguments as it wrote them.

It is given the step and the arguments that the engine filled, and nothing else.

Raises:
    HarnessError: it cannot be asked, or what it wrote is no call of the operation.
"""


class Stopped(Exception):
    """A call that may not be made, or not yet."""

    def __init__(
        self, status: Literal["denied", "waiting"], denied: Denied, said: str = ""
    ) -> None:
        super().__init__(f"{denied.reason} ({said})" if said else denied.reason)
        self.status = status
        self.denied = denied


class Ready(NamedTuple):
    """A call that may be made, and what a person was asked and said, if it took one."""

    call: Call
    approved: Question | None = None
    answer: Answer | None = None


class Permit:
    """Decides about calls of a run, and makes those that are permitted."""

    def __init__(
        self,
        world: Callable[[], World],
        held: Held,
        log: PlanLog,
        *,
        person: Person,
        propose: Propose | None,
    ) -> None:
        self._world = world
        self._held = held
        self._log = log
        self._person = person
        self._propose = propose

    def decided(self, call: Call) -> Denied | None:
        """What the policy says against the call now; it is noted."""
        world = self._world()
        decision = check_step(call, world)
        self._log.decided(call, world, decision)
        return decision if isinstance(decision, Denied) else None

    def ready(self, call: Call, number: int) -> Ready:
        """The call as it may be made: item `number` of its step, composed and permitted.

        Raises:
            Stopped: it is denied, or waits for a person.
        """
        if self._log.made_before(call.index, number):
            return Ready(call)
        again = replace(call, earlier=self._log.failed_before(call.index, number))
        if call.step.compose is None:
            return self._permitted(again)
        self._permitted(call)
        return self._permitted(replace(again, proposed=self._composed(call, number)))

    def done(self, ready: Ready, number: int) -> Entity:
        """Make the call, again if the step says so, and give what it made.

        Raises:
            Stopped: the policy does not let it be tried again.
            OperationFailed: it was begun before a break, and may have happened.
            HarnessError: it failed.
        """
        call = ready.call
        before = self._log.made_before(call.index, number)
        if before is not None:
            return before
        if self._log.begun_before(call.index, number):
            raise OperationFailed(
                f"{call.step.op} was begun before the run was interrupted: it may have "
                "happened, so it is not done again"
            )
        for left in reversed(range(call.step.retry + 1 - len(call.earlier))):
            resolved = self._resolved(call)
            self._use(ready, resolved)
            try:
                made = self._once(call, number, resolved)
            except PersonAwaited as error:
                raise Stopped("waiting", Denied(reason=str(error), rule=QUESTION)) from error
            except HarnessError as error:
                if not left or isinstance(error, NotKept):
                    raise
                name = f"step{call.index} failed"
                why = derived(str(error), origin=name, of=resolved.used)
                self._log.failed(call.index, number, why)
                call = replace(call, earlier=(*call.earlier, self._kept(why)))
                ready = self._permitted(call)
            else:
                self._log.made(call.index, number, made)
                return self._kept(made)
        raise AssertionError("a step is tried at least once")

    def nothing(self, call: Call) -> Entity | None:
        """What a call that is passed over leaves: no content, but the labels it would have."""
        resolved = resolve(call, self._world())
        return (
            None if isinstance(resolved, Denied) else self._kept(passed_over(resolved, call.index))
        )

    def _once(self, call: Call, number: int, resolved: Resolved) -> Entity:
        operation = resolved.operation
        if operation.effect != "read":
            self._log.begins(call.index, number, resolved)
        if operation.effect == "write" and operation.place:
            self._held.put_into(
                operation.place,
                resolved.used,
                origin=origin(call.step, call.index),
                also=operation.label_of(resolved.arguments),
            )
        return perform(resolved, call.index)

    def _permitted(self, call: Call) -> Ready:
        denied = self.decided(call)
        if denied is None:
            return Ready(call)
        resolved = resolve(call, self._world())
        if isinstance(resolved, Denied):
            raise Stopped("denied", denied)
        try:
            question = self._question(call, resolved, denied)
        except Missing as error:
            raise Stopped("denied", denied, f"and there is nothing at /{error}") from error
        answer = self._person.ask(question)
        if answer.status != "approved":
            raise Stopped(answer.status, denied, answer.reason)
        return Ready(call, question, answer)

    def _use(self, ready: Ready, resolved: Resolved) -> None:
        question = ready.approved
        if question is None or ready.answer is None:
            return
        if not self._person.use(question):
            raise Stopped("waiting", question.denied, "the approval is not there any more")
        named = {**resolved.control, **resolved.parts}
        for argument in dict.fromkeys(one.argument for one in question.denied.each):
            for entity in named.get(argument.removeprefix("/"), ()):
                if entity.label.taint:
                    self._log.endorsed(entity, argument, answer=ready.answer, question=question)

    def _question(self, call: Call, resolved: Resolved, denied: Denied) -> Question:
        return Question(
            action=action_of(resolved, policy_version(self._world())),
            run_id=self._log.run_id,
            step=call.index,
            op=call.step.op,
            arguments=resolved.arguments,
            denied=denied,
        )

    def _composed(self, call: Call, number: int) -> Mapping[str, Json]:
        written = self._log.written_before(call.index, number)
        if written is None:
            if self._propose is None:
                raise OperationFailed(f"step {call.index} is to be composed, by nobody")
            resolved = self._resolved(call)
            args = self._propose(call.step, resolved.operation, resolved.arguments)
            name = f"step{call.index} composed"
            written = self._kept(derived(dict(args), origin=name, of=resolved.used))
            self._log.wrote(call.index, number, written)
        if not isinstance(written.content, Mapping):
            raise OperationFailed(f"what was composed for step {call.index} is no arguments")
        return written.content

    def _kept(self, entity: Entity) -> Entity:
        self._held.keep(None, entity)
        return entity

    def _resolved(self, call: Call) -> Resolved:
        resolved = resolve(call, self._world())
        if isinstance(resolved, Denied):
            raise Stopped("denied", resolved)
        return resolved
