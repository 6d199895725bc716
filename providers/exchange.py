"""One exchange with a model: limits, call, guard, and its record in the trajectory."""

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from pydantic import ValidationError

from contracts.chat import Usage
from contracts.errors import ModelRefused, ModelUnavailable, OptionInvalid
from contracts.model_access import INTERNAL_AGENT, refusal
from contracts.tool import Decision, Denied, ToolCall
from providers.account import Account, RequestRefused, Turn
from providers.call_model import unavailable_error
from providers.embed import EmbeddingAnswer, EmbeddingRequest
from providers.gateway_api import NO_PRICES, Prices
from providers.litellm_stream import estimated_usage
from providers.models import cost_usd, litellm
from providers.openai_messages import content_text, message_to_openai, usage_from
from providers.protocol import (
    AnswerPart,
    EndPart,
    ModelRequest,
    ReceivedAnswer,
    ToolCallPart,
    WaitPart,
)
from providers.trajectory import stable_digest

_BATCH = 64
"""Texts of one request to an embedding model."""

_POLL_S = 1.0
"""Interval of checks whether a person has decided."""

# What the record of one request keeps: an agent may send megabytes with each.
MAX_RECORDED_TEXT = 4_000_000
"""Characters of text that the record of one answer keeps; agents get all of it."""

_MAX_MESSAGE = 20_000
_MAX_MESSAGES = 10 * _MAX_MESSAGE
_MAX_RESULT = 4_000
_MAX_ENTRIES = 200
_MAX_SECRET = 1 << 16


def exchange(account: Account, request: ModelRequest) -> Generator[AnswerPart, None, None]:
    """Yield the parts of the model's answer, with denied tool calls replaced.

    The answer is counted and recorded also when the agent disconnects or the model breaks off.

    Raises:
        RequestRefused: a limit is reached, before the first part.
        ModelUnavailable: as `call_model` and `Account.turn`.
        OptionInvalid: the file of a scripted model is missing or malformed.
    """
    with account.turn() as turn:
        restored = account.denied_calls.restore(request.messages)
        request = replace(request, messages=restored)
        record = _Record(account, turn, request)
        record.write_request()
        waited_s = 0.0
        try:
            answer = account.run.call(account.spec.model, request, record.write_failure)
            record.model = answer.model
            for part in answer.parts:
                record.add(part)
                if isinstance(part, ToolCallPart):
                    waited_s = yield from _guard_call(account, part.call, waited_s)
                elif isinstance(part, EndPart):
                    yield replace(part, model=answer.model)
                else:
                    yield part
        except (ModelUnavailable, OptionInvalid) as error:
            account.run.models.avoid(record.model)
            record.fail(error)
            raise
        finally:
            record.write_answer()


def _guard_call(
    account: Account, call: ToolCall, waited_s: float
) -> Generator[AnswerPart, None, float]:
    """Yield the call or its refusal, after waiting for a person if the guard asked one.

    All calls of one answer share one waiting time; returns how much of it is used.
    """
    started = time.monotonic() - waited_s
    decision = account.decide(call)
    while isinstance(decision, Denied) and decision.approval:
        if time.monotonic() - started >= account.wait_s:
            break
        yield WaitPart()
        account.closed.wait(_POLL_S)
        decision = account.decide(call)
    account.count_decision(call, decision)
    write_decision(account, call, decision)
    if isinstance(decision, Denied):
        call = account.denied_calls.deny(call, decision)
    else:
        account.permit(call)
    yield ToolCallPart(call)
    return time.monotonic() - started


def write_decision(account: Account, call: ToolCall, decision: Decision, **more: object) -> None:
    """Write the guard's decision about a call to the trajectory."""
    denial = decision if isinstance(decision, Denied) else decision.lifted_denial
    others = denial.others if denial else ()
    account.run.trajectory.write(
        "decision",
        node=account.spec.node,
        call=call.id,
        tool=call.name,
        verdict="denied" if isinstance(decision, Denied) else "allowed",
        reason=denial.reason if denial else "",
        rule=denial.rule if denial else "",
        also=[{"rule": one.rule, "reason": one.reason} for one in others],
        approval=denial.approval if denial else "",
        **more,
    )


class Embeddings(NamedTuple):
    """One vector for each text, in the order of the texts, and the cost."""

    vectors: Sequence[Sequence[float]]
    usage: Usage


def embed_exchange(account: Account, request: EmbeddingRequest) -> Embeddings:
    """Return vectors; count them, and record how many texts there were.

    Raises:
        RequestRefused: a limit is reached, or the token belongs to an agent: only the host may
            choose a provider's address and key.
        ModelUnavailable: as `embed`.
    """
    spec, started = account.spec, time.monotonic()
    if spec.agent != INTERNAL_AGENT:
        raise RequestRefused("this token is for a model that chats", kind="token", status=403)
    with account.turn() as turn:
        try:
            embeddings = embed(spec.model, request, account.run.terms.prices)
        except ModelUnavailable as error:
            account.record_failure(str(error), may_retry=True)
            raise
        turn.usage, turn.model, turn.complete = embeddings.usage, spec.model, True
    account.run.trajectory.write(
        "embedding",
        node=spec.node,
        model=spec.model,
        texts=len(request.input),
        usage=asdict(embeddings.usage),
        latency_ms=_milliseconds_since(started),
    )
    return embeddings


def embed(model: str, request: EmbeddingRequest, prices: Prices = NO_PRICES) -> Embeddings:
    """Call any embedding model of litellm, in batches.

    Raises:
        ModelRefused: the model does not accept one of the texts.
        ModelUnavailable: no key, no such model, no answer.
    """
    options = {
        "model": model,
        "dimensions": request.dimensions,
        "api_key": request.harness_api_key,
        "api_base": request.harness_api_base,
        "timeout": request.harness_timeout_s,
        "num_retries": 0,
    }
    options = {name: value for name, value in options.items() if value is not None}
    vectors: list[Sequence[float]] = []
    usage = Usage()
    for start in range(0, len(request.input), _BATCH):
        batch = _call(model, request.input[start : start + _BATCH], options)
        vectors += batch.vectors
        usage += batch.usage
    return Embeddings(vectors, replace(usage, cost_usd=cost_usd(model, usage, prices)))


def _call(model: str, texts: Sequence[str], options: Mapping[str, object]) -> Embeddings:
    import openai  # litellm derives all errors of providers from its root

    try:
        response = litellm().embedding(input=list(texts), **options)
    except openai.OpenAIError as error:
        # Not chained to its cause: providers echo requests and parts of keys there.
        raise unavailable_error(model, error, attempts=1) from None
    try:
        answer = EmbeddingAnswer.model_validate(response.model_dump())
    except ValidationError as error:
        raise ModelUnavailable(f"{model!r} answered without vectors") from error
    rows = answer.data
    if len(rows) != len(texts):
        raise ModelUnavailable(f"{model!r} gave {len(rows)} vectors for {len(texts)} texts")
    vectors = [row.embedding for row in sorted(rows, key=lambda row: row.index)]
    return Embeddings(vectors, usage_from(answer.usage or {}))


class _Record:
    """Writes one exchange to the trajectory and sets the usage of its turn."""

    def __init__(self, account: Account, turn: Turn, request: ModelRequest) -> None:
        self._account = account
        self._turn = turn
        self._request = request
        self.model = account.spec.model
        self._answer = ReceivedAnswer(max_text=MAX_RECORDED_TEXT)
        self._started = time.monotonic()
        self._first_ms: int | None = None
        self._failure = "the agent hung up"

    def write_request(self) -> None:
        """Write the new messages, tool results and tool names, each cut to a maximum."""
        messages, new, room = [], self._request.new_messages, _MAX_MESSAGES
        for message in new[:_MAX_ENTRIES]:
            text = content_text(message.get("content"))
            if message.get("role") == "tool":
                self._write_result(str(message.get("tool_call_id"))[:_MAX_RESULT], text)
                continue
            maximum = min(_MAX_MESSAGE, room)
            content = self._beginning(text, maximum)
            room -= len(content)
            entry: dict[str, object] = {"role": message.get("role"), "content": content}
            if len(text) > maximum:
                entry |= {"size": len(text), "digest": stable_digest(text)}
            messages.append(entry)
        tools = [name[:100] for name in self._request.tool_names[:_MAX_ENTRIES]]
        more = {"left_out": len(new) - _MAX_ENTRIES} if len(new) > _MAX_ENTRIES else {}
        self._write("request", messages=messages, tools=tools, **more)

    def write_failure(self, model: str, error: ModelUnavailable) -> None:
        """Write that a model did not answer and that another one is asked."""
        self._write("fallback", model=model, why=str(error))

    def add(self, part: AnswerPart) -> None:
        """Remember a part of the answer."""
        if self._first_ms is None:
            self._first_ms = _milliseconds_since(self._started)
        self._answer.add(part)

    def fail(self, error: Exception) -> None:
        """Remember that the model gave no answer or half of one."""
        self._failure = str(error)
        may_retry = self._first_ms is not None or isinstance(error, ModelRefused)
        self._account.record_failure(self._failure, may_retry=may_retry)

    def write_answer(self) -> None:
        """Write the answer; the cost of one that did not end is estimated."""
        answer, end = self._answer, self._answer.end
        if end is None:
            self._write_broken_answer()
            return
        self._turn.model = self.model
        self._turn.usage, self._turn.complete = end.usage, True
        self._turn.refused = refusal(end.stop_reason)
        self._write(
            "reply",
            message=message_to_openai(answer.message),
            usage=asdict(end.usage),
            stop_reason=end.stop_reason,
            latency_ms=_milliseconds_since(self._started),
            first_ms=self._first_ms,
            cut=answer.characters > MAX_RECORDED_TEXT,
        )

    def _write_broken_answer(self) -> None:
        answer, account = self._answer, self._account
        usage, message = Usage(), {}
        if answer.characters:
            # Providers bill the beginning of an answer too, also when nobody reads it.
            usage = estimated_usage(self._request.characters, answer.characters)
            cost = cost_usd(self.model, usage, account.run.terms.prices)
            self._turn.model = self.model
            usage = self._turn.usage = replace(usage, cost_usd=cost)
            message = {"message": message_to_openai(answer.message)}
        size = answer.characters
        self._write("broken", why=self._failure, usage=asdict(usage), size=size, **message)

    def _write_result(self, call_id: str, text: str) -> None:
        beginning = self._beginning(text, _MAX_RESULT)
        digest = stable_digest(text)
        self._write("result", call=call_id, digest=digest, size=len(text), text=beginning)

    def _beginning(self, text: str, maximum: int) -> str:
        """Return the beginning of a text, redacted before it is cut: half a secret is not found."""
        return self._account.run.trajectory.redact(text[: maximum + _MAX_SECRET])[:maximum]

    def _write(self, kind: str, **fields: object) -> None:
        spec = self._account.spec
        source = {"node": spec.node, "agent": spec.agent, "model": self.model}
        self._account.run.trajectory.write(kind, **{**source, **fields})


def _milliseconds_since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
