"""What one token may spend, and what was spent with it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pydantic import TypeAdapter

from contracts.chat import Usage
from contracts.errors import ModelUnavailable
from contracts.model_access import INTERNAL_AGENT, AgentUsage, TokenSpec, limit_reached
from contracts.run import DecisionCounts
from contracts.tool import Decision, Denied, Guard, ToolCall
from providers.denied_calls import DeniedCalls
from providers.litellm_stream import MAX_ARGUMENTS
from providers.run_account import RunAccount

SPENT_JSON = TypeAdapter(AgentUsage)
"""How what was spent crosses the wire."""

MAX_CONCURRENT = 8
"""Requests that one agent may have under way: what they spend is only known when they end. As
many again may be under way that cost nothing."""

MAX_CONSECUTIVE_FAILURES = 10
"""Requests that a model may find malformed, one after the other, before its agent is given up."""

SETTLE_TIMEOUT_S = 2.0
"""How long a killed agent's requests are waited for: at a model's next word they are over."""

MAX_PENDING_BYTES = 128 << 20
"""Bytes of requests that one agent may have here before they are answered."""


class RequestRefused(Exception):
    """A request that is not served. `kind` is for our own clients, the message for agents."""

    def __init__(self, message: str, *, kind: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass
class Account:
    """What one token is worth and what was done with it. Several threads may use it."""

    terms: TokenSpec
    run: RunAccount
    guard: Guard
    refusals: DeniedCalls = field(default_factory=DeniedCalls)
    closed: threading.Event = field(default_factory=threading.Event)
    _spent: AgentUsage = field(default_factory=AgentUsage)
    _calls: Counter[str] = field(default_factory=Counter)
    _given_up: str | None = None
    _refused: int = 0
    _under_way: int = 0
    _beside: int = 0
    _held: int = 0
    _lock: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def pending_body(self) -> Iterator[Callable[[int], None]]:
        """Takes in a request: the block tells each size that comes, all are held to its end.

        Raises:
            Refused: the agent's requests would be more than `HELD` bytes together.
        """
        held = 0

        def more(size: int) -> None:
            nonlocal held
            with self._lock:
                if self._held + size > MAX_PENDING_BYTES:
                    told = f"{MAX_PENDING_BYTES} bytes of requests wait for their answers: wait"
                    raise RequestRefused(told, kind="busy", status=429)
                self._held += size
            held += size

        try:
            yield more
        finally:
            with self._lock:
                self._held -= held

    @contextmanager
    def free_request(self) -> Iterator[None]:
        """A request that is no turn, yet takes one of the threads that all agents share.

        Raises:
            Refused: `AT_ONCE` of them are under way.
        """
        with self._lock:
            if self._beside >= MAX_CONCURRENT:
                raise RequestRefused(
                    f"{MAX_CONCURRENT} requests are under way: wait", kind="busy", status=429
                )
            self._beside += 1
        try:
            yield
        finally:
            with self._lock:
                self._beside -= 1

    @contextmanager
    def turn(self) -> Iterator["Turn"]:
        """One more turn, under way until it is counted or this ends.

        Raises:
            Refused: a limit of the token or of the run is reached, or would be by the turns
                that are under way, or they are `AT_ONCE`.
            ModelUnavailable: an agent's model did not answer before, though it was asked again
                and again: agents would go on like that for minutes.
        """
        turn = self._begin()
        try:
            yield turn
        finally:
            with self._lock:
                self._end(turn)

    def _begin(self) -> "Turn":
        with self._lock:
            if self._given_up is not None:
                raise ModelUnavailable(self._given_up)
            stopped = self.run.exceeded() or self._reached()
            if stopped is not None:
                self._spent = replace(self._spent, stopped=stopped)
                raise RequestRefused(stopped, kind="budget")
            if self._under_way >= MAX_CONCURRENT and self.terms.agent != INTERNAL_AGENT:
                raise RequestRefused(
                    f"{MAX_CONCURRENT} requests are under way: wait", kind="busy", status=429
                )
            self._under_way += 1
        return Turn()

    def _end(self, turn: "Turn") -> None:
        if turn.is_under_way:
            turn.is_under_way = False
            self._under_way -= 1
            self._lock.notify_all()

    def count(self, turn: "Turn", usage: Usage, *, whole: bool) -> None:
        """Add the reply of a turn and what it cost; a whole one ends an outage."""
        with self._lock:
            self._end(turn)
            self._refused = 0
            self._spent = replace(
                self._spent,
                turns=self._spent.turns + 1,
                usage=self._spent.usage + usage,
                outage=None if whole else self._spent.outage,
            )
            self.run.count(usage)

    def decide(self, call: ToolCall) -> Decision:
        """Let the guard decide about a call; it may be asked again while a person is waited for."""
        return _too_long(call) or self.guard(call)

    @property
    def wait_s(self) -> float:
        """How long a person's decision is waited for; nobody waits once the token is closed."""
        bounds = self.terms.bounds
        return 0.0 if bounds is None or self.closed.is_set() else bounds.wait_s

    def count_decision(self, call: ToolCall, decision: Decision) -> None:
        """Count a call and what was decided about it in the end."""
        denied = isinstance(decision, Denied)
        one = DecisionCounts(allowed=int(not denied), denied=int(denied))
        with self._lock:
            self._calls[call.name[:64]] += 1
            self._spent = replace(self._spent, decisions=self._spent.decisions + one)

    def record_failure(self, why: str, *, again: bool) -> None:
        """Remember why the model did not answer, or not to the end; `again`: it still may.

        An agent whose requests are all refused pays for none: no budget would ever stop it.
        """
        with self._lock:
            self._spent = replace(self._spent, outage=why)
            self._refused += 1
            if self.terms.agent != INTERNAL_AGENT and (
                not again or self._refused >= MAX_CONSECUTIVE_FAILURES
            ):
                self._given_up = why

    def settled(self) -> AgentUsage:
        """What was spent when nothing is under way any more, or after `SETTLES_S`."""
        with self._lock:
            self._lock.wait_for(lambda: not self._under_way, SETTLE_TIMEOUT_S)
        return self.spent()

    def spent(self) -> AgentUsage:
        """What was spent so far."""
        with self._lock:
            return replace(self._spent, tool_calls=MappingProxyType(dict(self._calls)))

    def _reached(self) -> str | None:
        spent = self._spent
        return limit_reached(self.terms, spent.turns, spent.usage, in_flight=self._under_way)


class Turn:
    """A request to the model: under way, then counted among those that were, or over."""

    def __init__(self) -> None:
        self.is_under_way = True


def _too_long(call: ToolCall) -> Denied | None:
    if len(call.arguments) <= MAX_ARGUMENTS:
        return None
    return Denied(reason=f"more than {MAX_ARGUMENTS} characters of arguments: do it in pieces")
