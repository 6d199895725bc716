"""What a run and each of its tokens may spend, and what was spent. Thread-safe."""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from contracts.chat import Usage, model_names
from contracts.errors import ModelUnavailable
from contracts.json import json_digest
from contracts.model_access import INTERNAL_AGENT, AgentUsage, TokenSpec, limit_reached
from contracts.run import DecisionCounts
from contracts.tool import Decision, Denied, Guard, ToolCall
from providers.call_model import Answer, OnFailure, RunModels, Sleep
from providers.denied_calls import DeniedCalls
from providers.gateway_api import RunTerms
from providers.litellm_stream import MAX_ARGUMENTS
from providers.protocol import ModelRequest
from providers.scripted import SCRIPTED_PREFIX
from providers.trajectory import Redact, Trajectory

MAX_CONCURRENT = 8
"""Requests of one agent at the same time: their cost is only known when they end. As many free
requests, which call no model, may run beside them."""

MAX_CONSECUTIVE_FAILURES = 10
"""Failed requests in a row after which an agent gets no more: no budget would ever stop it."""

SETTLE_TIMEOUT_S = 2.0
"""Longest wait for the requests of a killed agent. They end when the model sends its next word."""

MAX_PERMITS = 1000
"""Allowed calls of tools on the host that an agent has not made yet."""

MAX_PENDING_BYTES = 128 << 20
"""Bytes of request bodies that one agent may have in memory."""


class RequestRefused(Exception):
    """The gateway does not serve a request. `kind` is for our client, the message for agents."""

    def __init__(self, message: str, *, kind: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class RunAccount:
    """One open run: its models, its trajectory and its costs."""

    def __init__(self, terms: RunTerms, redact: Redact, sleep: Sleep) -> None:
        self.terms = terms
        self.secrets = [secret for secret in terms.secrets if secret]
        self.trajectory = Trajectory(terms.trajectory, redact=lambda t: self._redact(redact(t)))
        self.ends_at = time.monotonic() + terms.ttl_s
        self.models = RunModels(terms.prices, sleep=sleep, replies_given=terms.replies_given)
        self._usage = Usage(cost_usd=terms.spent_usd)
        self._lock = threading.Lock()

    def call(self, model: str, request: ModelRequest, on_failure: OnFailure) -> Answer:
        """Call a model, or play the next reply of the trajectory that the run replays.

        Raises:
            ModelUnavailable, OptionInvalid: as `RunModels.call`.
        """
        replay = self.terms.replay
        names = (f"{SCRIPTED_PREFIX}{replay}",) if replay else model_names(model)
        return self.models.call(names, request, on_failure)

    def add(self, usage: Usage) -> None:
        """Add the cost of one answer."""
        with self._lock:
            self._usage += usage

    @property
    def usage(self) -> Usage:
        """The cost of all agents together."""
        return self._usage

    def limit_reached(self) -> str | None:
        """Return why the run may spend no more, or None."""
        budget, usage = self.terms.budget_usd, self._usage
        if budget is None or usage.cost_usd < budget:
            return None
        return f"budget exceeded: ${usage.cost_usd:.4f} of ${budget:g}, {usage.total} tokens"

    def _redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[redacted]")
        return text


@dataclass
class Turn:
    """One request to the model. It counts as a turn if `usage` is set when it ends."""

    usage: Usage | None = None
    model: str = ""
    complete: bool = False
    refused: str | None = None


@dataclass
class Account:
    """What one token allows, and what was done with it."""

    spec: TokenSpec
    run: RunAccount
    guard: Guard
    denied_calls: DeniedCalls = field(default_factory=DeniedCalls)
    closed: threading.Event = field(default_factory=threading.Event)
    _permits: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MAX_PERMITS))
    _usage: AgentUsage = field(default_factory=AgentUsage)
    _answers: Counter[str] = field(default_factory=Counter)
    _calls: Counter[str] = field(default_factory=Counter)
    _outage: str | None = None
    _failures: int = 0
    _in_flight: int = 0
    _pending_bytes: int = 0
    _free: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(MAX_CONCURRENT)
    )
    _lock: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def pending_body(self) -> Iterator[Callable[[int], None]]:
        """Count a request's bytes, which the block reports as they arrive, until the block ends.

        Raises:
            RequestRefused: the agent's requests together exceed `MAX_PENDING_BYTES`.
        """
        total = 0

        def add(size: int) -> None:
            nonlocal total
            with self._lock:
                if self._pending_bytes + size > MAX_PENDING_BYTES:
                    message = f"{MAX_PENDING_BYTES} bytes of requests wait for their answers: wait"
                    raise RequestRefused(message, kind="busy", status=429)
                self._pending_bytes += size
            total += size

        try:
            yield add
        finally:
            with self._lock:
                self._pending_bytes -= total

    @contextmanager
    def free_request(self) -> Iterator[None]:
        """Admit a request that calls no model, but takes a thread that all agents share.

        Raises:
            RequestRefused: `MAX_CONCURRENT` of them are under way.
        """
        if not self._free.acquire(blocking=False):
            raise _busy()
        try:
            yield
        finally:
            self._free.release()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Admit one request to the model, and count it when the block ends.

        Raises:
            RequestRefused: a limit of the token or of the run is reached, counting the requests
                under way, or `MAX_CONCURRENT` of them are under way.
            ModelUnavailable: the model failed before. Agents repeat such requests for minutes.
        """
        with self._lock:
            if self._outage is not None:
                raise ModelUnavailable(self._outage)
            if (stopped := self.run.limit_reached() or self._limit_reached()) is not None:
                self._usage = replace(self._usage, stopped=stopped)
                raise RequestRefused(stopped, kind="budget")
            if self._in_flight >= MAX_CONCURRENT and self.spec.agent != INTERNAL_AGENT:
                raise _busy()
            self._in_flight += 1
        turn = Turn()
        try:
            yield turn
        finally:
            with self._lock:
                self._in_flight -= 1
                if turn.usage is not None:
                    self._count(turn, turn.usage)
                self._lock.notify_all()

    def _count(self, turn: Turn, usage: Usage) -> None:
        self._failures = 0
        self._answers[turn.model] += 1
        self._usage = replace(
            self._usage,
            turns=self._usage.turns + 1,
            usage=self._usage.usage + usage,
            outage=None if turn.complete else self._usage.outage,
            refused=turn.refused,
        )
        self.run.add(usage)

    def _limit_reached(self) -> str | None:
        usage = self._usage
        return limit_reached(self.spec, usage.turns, usage.usage, in_flight=self._in_flight)

    def record_failure(self, reason: str, *, may_retry: bool) -> None:
        """Remember why the model gave no answer or half of one.

        Without `may_retry`, or after `MAX_CONSECUTIVE_FAILURES`, the agent's later requests fail.
        """
        with self._lock:
            self._usage = replace(self._usage, outage=reason)
            self._failures += 1
            gives_up = not may_retry or self._failures >= MAX_CONSECUTIVE_FAILURES
            if gives_up and self.spec.agent != INTERNAL_AGENT:
                self._outage = reason

    def decide(self, call: ToolCall) -> Decision:
        """Return the guard's decision, which changes once a person has decided."""
        if len(call.arguments) > MAX_ARGUMENTS:
            return Denied(
                reason=f"more than {MAX_ARGUMENTS} characters of arguments: do it in pieces"
            )
        return self.guard(call)

    def permit(self, call: ToolCall) -> None:
        """Remember that the model's call was allowed: the agent may now make it at `/mcp`."""
        if self.spec.tools is not None and call.name.startswith(self.spec.tools.prefix):
            with self._lock:
                self._permits.append(_exact(call))

    def use_permit(self, call: ToolCall) -> bool:
        """Return True once for each permitted call."""
        with self._lock:
            if found := _exact(call) in self._permits:
                self._permits.remove(_exact(call))
            return found

    @property
    def wait_s(self) -> float:
        """Seconds to wait for a person's decision; 0 once the token is closed."""
        bounds = self.spec.bounds
        return 0.0 if bounds is None or self.closed.is_set() else bounds.wait_s

    def count_decision(self, call: ToolCall, decision: Decision) -> None:
        """Count a call and the final decision about it."""
        denied = isinstance(decision, Denied)
        one = DecisionCounts(allowed=int(not denied), denied=int(denied))
        with self._lock:
            self._calls[call.name[:64]] += 1
            self._usage = replace(self._usage, decisions=self._usage.decisions + one)

    def current_usage(self) -> AgentUsage:
        """Return what was spent so far."""
        with self._lock:
            return replace(
                self._usage,
                answers=MappingProxyType(dict(self._answers)),
                tool_calls=MappingProxyType(dict(self._calls)),
            )

    def final_usage(self) -> AgentUsage:
        """Return what was spent once no request is under way, or after `SETTLE_TIMEOUT_S`."""
        with self._lock:
            self._lock.wait_for(lambda: not self._in_flight, SETTLE_TIMEOUT_S)
        return self.current_usage()


def _exact(call: ToolCall) -> tuple[str, str]:
    """Return the name and a digest of the arguments, however they are written."""
    try:
        return call.name, json_digest(json.loads(call.arguments or "{}"))
    except (ValueError, RecursionError):
        return call.name, call.arguments[:MAX_ARGUMENTS]


def _busy() -> RequestRefused:
    return RequestRefused(f"{MAX_CONCURRENT} requests are under way: wait", kind="busy", status=429)
