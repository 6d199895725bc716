"""One request, from its limits to the trajectory."""

import time
from collections.abc import Generator
from dataclasses import asdict, replace

from contracts.chat import Usage
from contracts.errors import ModelRefused, ModelUnavailable, OptionInvalid
from contracts.model_access import INTERNAL_AGENT
from contracts.tool import Decision, Denied, ToolCall
from providers.account import Account, RequestRefused, Turn
from providers.answer_parts import (
    MAX_RECORDED_TEXT,
    AnswerPart,
    ReceivedAnswer,
    ToolCallPart,
    WaitPart,
)
from providers.embed import EmbeddingRequest, Embeddings, embed
from providers.litellm_stream import estimated_usage
from providers.model_request import ModelRequest, content_text
from providers.prices import cost_usd
from providers.trajectory import stable_digest
from providers.wire_openai import message_to_openai

LOOK_S = 1.0
"""How often it is looked whether a person has decided."""

_SHOWN = 4_000
_KEPT = 20_000
"""Characters of a message that stay: only replies are played again, and it may be megabytes."""

_MOST_KEPT = 10 * _KEPT
_MOST_NEWS = 200
"""New messages and results of one request that are written down."""

_LONGEST_SECRET = 1 << 16


def exchange(account: Account, ask: ModelRequest) -> Generator[AnswerPart, None, None]:
    """The pieces that the agent gets: the model's, with denied calls replaced.

    What the model said is counted and written down however this ends, also when the agent
    hangs up or the model breaks off.

    Raises:
        Refused: a limit is reached, before the first piece.
        ModelUnavailable: as `answer` and `Account.turn`.
        OptionInvalid: the scripted model is no script.
    """
    with account.turn() as turn:
        restored = replace(ask, messages=account.refusals.restore(ask.messages))
        yield from _written(account, turn, restored)


def _written(account: Account, turn: Turn, ask: ModelRequest) -> Generator[AnswerPart, None, None]:
    """The same of a turn that may begin."""
    book = _Book(account, turn, ask)
    book.write_request()
    waited_s = 0.0
    try:
        for piece in account.run.answer(account.terms.model, ask):
            book.hear(piece)
            if isinstance(piece, ToolCallPart):
                waited_s = yield from _guarded(account, piece.call, waited_s)
            else:
                yield piece
    except (ModelUnavailable, OptionInvalid) as error:
        book.broke(error)
        raise
    finally:
        book.close()


def embed_exchange(account: Account, ask: EmbeddingRequest) -> Embeddings:
    """Vectors, counted and written down; of the texts only how many they were.

    Raises:
        Refused: a limit is reached, or an agent asks: its token is for its model.
        ModelUnavailable: as `embed`.
    """
    terms, started = account.terms, time.monotonic()
    if terms.agent != INTERNAL_AGENT:
        raise RequestRefused("this token is for a model that chats", kind="token", status=403)
    with account.turn() as turn:
        try:
            made = embed(terms.model, ask, account.run.terms.prices)
        except ModelUnavailable as error:
            account.record_failure(str(error), again=True)
            raise
        account.count(turn, made.usage, whole=True)
    account.run.trajectory.write(
        "embedding",
        node=terms.node,
        model=terms.model,
        texts=len(ask.input),
        usage=asdict(made.usage),
        latency_ms=round((time.monotonic() - started) * 1000),
    )
    return made


def _guarded(
    account: Account, call: ToolCall, waited_s: float
) -> Generator[AnswerPart, None, float]:
    """The call, or another in its place; before it `Wait`, as long as a person is waited for.

    All calls of one answer share that time; gives how much of it is gone.
    """
    decision = account.decide(call)
    began = time.monotonic() - waited_s
    while _waits(decision) and time.monotonic() - began < account.wait_s:
        yield WaitPart()
        account.closed.wait(LOOK_S)
        decision = account.decide(call)
    account.count_decision(call, decision)
    denied = decision if isinstance(decision, Denied) else decision.lifted_denial
    account.run.trajectory.write(
        "decision",
        node=account.terms.node,
        call=call.id,
        tool=call.name,
        verdict="denied" if isinstance(decision, Denied) else "allowed",
        reason=denied.reason if denied else "",
        rule=denied.rule if denied else "",
        also=[{"rule": one.rule, "reason": one.reason} for one in denied.others] if denied else [],
        approval=denied.approval if denied else "",
    )
    if isinstance(decision, Denied):
        call = account.refusals.deny(call, decision)
    yield ToolCallPart(call)
    return time.monotonic() - began


def _waits(decision: Decision) -> bool:
    return isinstance(decision, Denied) and bool(decision.approval)


class _Book:
    """Writes one exchange down."""

    def __init__(self, account: Account, turn: Turn, ask: ModelRequest) -> None:
        self._account = account
        self._turn = turn
        self._ask = ask
        self._heard = ReceivedAnswer()
        self._started = time.monotonic()
        self._first_ms: int | None = None
        self._why = "the agent hung up"

    def write_request(self) -> None:
        """Write what is new since the assistant last spoke: of each text the beginning."""
        messages, news, room = [], self._ask.new_messages, _MOST_KEPT
        for message in news[:_MOST_NEWS]:
            text = content_text(message.get("content"))
            if message.get("role") == "tool":
                self._write_result(str(message.get("tool_call_id"))[:_SHOWN], text)
                continue
            most = min(_KEPT, room)
            content = self._beginning(text, most)
            room -= len(content)
            cut = {} if len(text) <= most else {"size": len(text), "digest": stable_digest(text)}
            messages.append({"role": message.get("role"), "content": content, **cut})
        tools = [name[:100] for name in self._ask.tool_names[:_MOST_NEWS]]
        more = {"left_out": len(news) - _MOST_NEWS} if len(news) > _MOST_NEWS else {}
        self._write("request", messages=messages, tools=tools, **more)

    def hear(self, piece: AnswerPart) -> None:
        if self._first_ms is None:
            self._first_ms = self._elapsed_ms()
        self._heard.add(piece)

    def broke(self, error: Exception) -> None:
        """The model did not answer, or not to the end."""
        self._why = str(error)
        again = self._first_ms is not None or isinstance(error, ModelRefused)
        self._account.record_failure(self._why, again=again)

    def close(self) -> None:
        """Count the reply and write it; one that did not end is counted by a guess."""
        heard, end = self._heard, self._heard.end
        if end is None:
            usage = self._guess()
            said = {}
            if heard.characters:
                self._account.count(self._turn, usage, whole=False)
                said = {"message": message_to_openai(heard.message)}
            self._write("broken", why=self._why, usage=asdict(usage), size=heard.characters, **said)
            return
        self._account.count(self._turn, end.usage, whole=True)
        self._write(
            "reply",
            message=message_to_openai(heard.message),
            usage=asdict(end.usage),
            stop_reason=end.stop_reason,
            latency_ms=self._elapsed_ms(),
            first_ms=self._first_ms,
            cut=heard.characters > MAX_RECORDED_TEXT,
        )

    def _guess(self) -> Usage:
        """Providers bill what they were asked and what they said, also when nobody listens."""
        if not self._heard.characters:
            return Usage()
        usage = estimated_usage(self._ask.characters, self._heard.characters)
        run, model = self._account.run, self._account.terms.model
        return replace(usage, cost_usd=cost_usd(model, usage, run.terms.prices))

    def _write_result(self, call: str, text: str) -> None:
        shown = self._beginning(text, _SHOWN)
        self._write("result", call=call, digest=stable_digest(text), size=len(text), text=shown)

    def _beginning(self, text: str, most: int) -> str:
        """So many characters of a text, redacted before: a secret cut through is not found."""
        return self._account.run.trajectory.redact(text[: most + _LONGEST_SECRET])[:most]

    def _write(self, kind: str, **fields: object) -> None:
        terms = self._account.terms
        who = {"node": terms.node, "agent": terms.agent, "model": terms.model}
        self._account.run.trajectory.write(kind, **who, **fields)

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)
