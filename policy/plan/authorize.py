"""Executes one call of a step, after the policy or a person has authorized it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from contracts.entity import EMPTY_LABEL, Entity, Label, derive
from contracts.errors import HarnessError
from contracts.json import Json
from contracts.tool import Denied
from policy.errors import OperationFailed, ResultNotSaved, WaitingForPerson
from policy.plan.plan_log import Call, PlanLog, RunValues
from policy.plan.references import ReferenceMissing, value_at
from policy.plan.registry import Operation
from policy.plan.resolve import PolicyContext, ResolvedCall, StepCall, resolve
from policy.plan.step_check import action_digest, check_step, policy_version
from policy.types import QUESTION_RULE, ApprovalReply, ApprovalRequest, Approver, PlanStep

Compose = Callable[[PlanStep, Operation, Mapping[str, Json], Sequence[Json]], Mapping[str, Json]]
"""Lets a model write the content that the plan left open; returns the arguments it wrote.

The model sees the step, the arguments that the engine filled in, and the material.

Raises:
    HarnessError: the model does not answer, or its reply is not a call of the operation.
"""

_MAX_DETAIL = 60
"""Characters of a step's first argument in the origin of its result."""


class StepStopped(Exception):
    """A call is denied, or must wait for a person."""

    def __init__(
        self, status: Literal["denied", "waiting"], denied: Denied, detail: str = ""
    ) -> None:
        super().__init__(f"{denied.reason} ({detail})" if detail else denied.reason)
        self.status = status
        self.denied = denied


class AuthorizedCall(NamedTuple):
    """A call that may be executed, with the request and reply if a person approved it."""

    call: StepCall
    request: ApprovalRequest | None = None
    reply: ApprovalReply | None = None


class StepAuthorizer:
    """Decides about the calls of a run, and executes those that are authorized."""

    def __init__(
        self,
        context: Callable[[], PolicyContext],
        values: RunValues,
        log: PlanLog,
        *,
        approver: Approver,
        compose: Compose | None,
    ) -> None:
        self._context = context
        self._values = values
        self._log = log
        self._approver = approver
        self._compose = compose

    def policy_denial(self, call: StepCall) -> Denied | None:
        """Return the policy's denial of the call, or None; record the decision."""
        context = self._context()
        decision = check_step(call, context)
        self._log.record_decision(call, context, decision)
        return decision if isinstance(decision, Denied) else None

    def authorize(self, call: StepCall, number: int) -> AuthorizedCall:
        """Authorize call `number` of its step, after a model has composed its content.

        Raises:
            StepStopped: it is denied, or waits for a person.
        """
        key = (call.index, number)
        if key in self._log.results:
            return AuthorizedCall(call)
        again = replace(call, failed_attempts=self._log.failures[key])
        if call.step.compose is None:
            return self._authorized(again)
        # Decided before the model is called, so that it sees no data of a denied step.
        self._authorized(call)
        return self._authorized(replace(again, proposed=self._composed(call, number)))

    def execute(self, authorized: AuthorizedCall, number: int) -> Entity:
        """Execute the call, with the retries of its step, and return the result.

        Raises:
            StepStopped: the policy denies another attempt.
            OperationFailed: the call was started before an interruption, and may have happened.
            HarnessError: the call failed.
        """
        call = authorized.call
        key = (call.index, number)
        if key in self._log.results:
            return self._log.results[key]
        if key in self._log.unfinished:
            raise OperationFailed(
                f"{call.step.op} was started before the run was interrupted and may have "
                "happened, so it is not repeated"
            )
        for attempts_left in reversed(range(call.step.retry + 1 - len(call.failed_attempts))):
            resolved = self._resolved(call)
            self._consume(authorized, resolved)
            try:
                made = self._attempt(key, resolved)
            except WaitingForPerson as error:
                denied = Denied(reason=str(error), rule=QUESTION_RULE)
                raise StepStopped("waiting", denied) from error
            except HarnessError as error:
                if not attempts_left or isinstance(error, ResultNotSaved):
                    raise
                origin = f"step{call.index} failed"
                failure = derive(str(error), origin=origin, sources=resolved.used)
                self._log.record_failure(key, failure)
                self._values.add(None, failure)
                call = replace(call, failed_attempts=(*call.failed_attempts, failure))
                # The failure may carry taint, so another attempt needs another decision.
                authorized = self._authorized(call)
            else:
                self._log.record_result(key, made)
                self._values.add(None, made)
                return made
        raise AssertionError("a step is attempted at least once")

    def skip(self, call: StepCall) -> Entity | None:
        """Return a result without content for a skipped call, with the label it would have."""
        resolved = resolve(call, self._context())
        if isinstance(resolved, Denied):
            return None
        try:
            extra = resolved.operation.label(resolved.arguments)
        except ReferenceMissing:
            extra = EMPTY_LABEL
        origin = f"{step_origin(call.step, call.index)}, skipped"
        made = derive(None, origin=origin, sources=resolved.used, extra=extra)
        self._values.add(None, made)
        return made

    def _attempt(self, key: Call, resolved: ResolvedCall) -> Entity:
        """Run the operation. The result inherits the tags of everything that was used.

        The answer of a person inherits no taint: the person saw it and wrote their own words.
        """
        operation, arguments = resolved.operation, resolved.arguments
        origin = step_origin(resolved.step, key[0])
        # Recorded first: after a crash the log shows that the action may have happened.
        if operation.effect != "read":
            self._log.record_start(key, resolved)
        # Before the operation: a write that fails halfway has changed the place, too.
        if operation.effect == "write" and operation.place:
            extra = operation.label(arguments)
            self._values.add_to_place(operation.place, resolved.used, origin=origin, extra=extra)
        content = operation.call(arguments)
        extra = operation.label(arguments, content)
        made = derive(content, origin=origin, sources=resolved.used, extra=extra)
        self._add_items(key, made, resolved)
        if operation.vouched:
            label = Label(caps=made.label.caps)
            return Entity(content=made.content, label=label, origin=made.origin)
        return made

    def _add_items(self, key: Call, whole: Entity, resolved: ResolvedCall) -> None:
        """Store each item of a result whose items have labels of their own."""
        labels = resolved.operation.item_labels(resolved.arguments, whole.content)
        name = f"step{key[0]}" if resolved.step.foreach is None else f"step{key[0]}/{key[1]}"
        for number, label in enumerate(labels):
            origin = f"{whole.origin}/{number}"
            content = value_at(whole.content, (str(number),))
            item = derive(content, origin=origin, sources=resolved.used, extra=label)
            self._values.add(f"{name}/{number}", replace(item, part_of=whole.id))

    def _authorized(self, call: StepCall) -> AuthorizedCall:
        denied = self.policy_denial(call)
        if denied is None:
            return AuthorizedCall(call)
        resolved = resolve(call, self._context())
        if isinstance(resolved, Denied):
            raise StepStopped("denied", denied)
        try:
            request = ApprovalRequest(
                action=action_digest(resolved, policy_version(self._context())),
                run_id=self._log.run_id,
                step=call.index,
                op=call.step.op,
                arguments=resolved.arguments,
                denied=denied,
            )
        except ReferenceMissing as error:
            raise StepStopped("denied", denied, f"there is no value at /{error}") from error
        # Nobody is asked about a call that could only fail; open content is not there yet.
        if call.step.compose is None or call.proposed is not None:
            resolved.operation.check(resolved.arguments)
        reply = self._approver.ask(request)
        if reply.status != "approved":
            raise StepStopped(reply.status, denied, reply.reason)
        return AuthorizedCall(call, request, reply)

    def _consume(self, authorized: AuthorizedCall, resolved: ResolvedCall) -> None:
        """Use up the approval, and record what the person endorsed by it."""
        request, reply = authorized.request, authorized.reply
        if request is None or reply is None:
            return
        if not self._approver.consume(request):
            raise StepStopped("waiting", request.denied, "the approval is no longer valid")
        entities = {**resolved.control_entities, **resolved.argument_entities}
        for argument in dict.fromkeys(denied.argument for denied in request.denied.denials):
            for entity in entities.get(argument.removeprefix("/"), ()):
                if entity.label.taint:
                    self._log.record_endorsement(entity, argument, request=request, reply=reply)

    def _composed(self, call: StepCall, number: int) -> Mapping[str, Json]:
        composed = self._log.composed.get((call.index, number))
        if composed is None:
            if self._compose is None:
                raise OperationFailed(f"step {call.index} needs a model to compose its content")
            resolved = self._resolved(call)
            material = [resolved.content(ref) for ref in call.step.compose_from]
            written = self._compose(call.step, resolved.operation, resolved.arguments, material)
            # The engine fills what the plan gives; a model that changes it breaks C5.
            arguments = {**resolved.arguments, **written}
            origin = f"step{call.index} composed"
            composed = derive(arguments, origin=origin, sources=resolved.used)
            self._values.add(None, composed)
            self._log.record_composed((call.index, number), composed)
        if not isinstance(composed.content, Mapping):
            raise OperationFailed(f"the content composed for step {call.index} is not arguments")
        return composed.content

    def _resolved(self, call: StepCall) -> ResolvedCall:
        resolved = resolve(call, self._context())
        if isinstance(resolved, Denied):
            raise StepStopped("denied", resolved)
        return resolved


def step_origin(step: PlanStep, index: int) -> str:
    """Return the origin of a step's result: the step, and its first short argument."""
    texts = [value for value in step.args.values() if isinstance(value, str)]
    detail = f" {texts[0]}" if texts and len(texts[0]) <= _MAX_DETAIL else ""
    return f"step{index} {step.op}{detail}"
