"""Asks the gateway, over plain HTTP: no process that runs a flow imports litellm."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from contracts.chat import ChatRequest, Message, Reply
from contracts.errors import BadInput, HarnessError, ModelRefused, ModelUnavailable, OptionInvalid
from contracts.model_access import (
    BUDGET_EXCEEDED,
    AgentUsage,
    ModelAccess,
    OpenModelAccess,
    TokenSpec,
)
from providers.account import SPENT_JSON
from providers.embed import EmbeddingRequest
from providers.model_request import response_format
from providers.run_account import RunTerms
from providers.scripted import SCRIPTED_PREFIX, is_scripted, script_path
from providers.usage import usage_from
from providers.wire_openai import message_from_openai, message_to_openai, tools_to_openai

if TYPE_CHECKING:
    import httpx

_PATIENCE_S = 300.0
"""How much longer than the model may take a request waits for the gateway. Long, because a busy
machine is slow; when the gateway's process ends, the request fails at once."""

OnWait = Callable[[], None]
"""Called every second of a wait; it raises to give up."""


def _wait_on() -> OnWait:
    return lambda: None


class Gateway:
    """The gateway at `url`: `http://127.0.0.1:4180`, or `unix:///path/of/a/socket`.

    Nothing connects before it is used; several threads may use it. `secret` opens the host
    side: runs and tokens. `watch_loading` is called before a wait for the gateway to load its
    library of providers, which takes minutes on a busy machine; it gives an `OnWait`.
    """

    def __init__(
        self, url: str, secret: str = "", *, watch_loading: Callable[[], OnWait] = _wait_on
    ) -> None:
        import httpx  # 60 ms that `harness --help` need not pay

        self._parts = urlsplit(url)
        self.url = url
        self._unix = self._parts.path if self._parts.scheme == "unix" else None
        transport = httpx.HTTPTransport(
            uds=self._unix,
            limits=httpx.Limits(max_connections=None),
            verify=False,  # it is plain HTTP, and loading certificates takes 40 ms
        )
        self._client = httpx.Client(
            transport=transport,
            base_url="http://gateway" if self._unix else url,
            trust_env=False,
        )
        self._host = {"authorization": f"Bearer {secret}"}
        self._watch_loading, self._loaded = watch_loading, False

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    def connect(self) -> socket.socket:
        """A new connection, for a port in a sandbox that leads here.

        Raises:
            OSError: nobody listens.
        """
        if self._unix is None:
            connection = socket.create_connection((self._parts.hostname, self._parts.port), 10.0)
            connection.settimeout(None)  # that was for connecting: models think for longer
            return connection
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._unix)
        return connection

    def open_runs(self) -> int | None:
        """How many runs use it; None when it does not answer within five seconds."""
        import httpx

        try:
            found = self._client.get("/health", timeout=5.0).json()["runs"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, int) else None

    def check_model(self, model: str) -> bool:
        """Whether a budget in dollars can stop this model: it has a price, or none is asked.

        Raises:
            OptionInvalid, ModelUnavailable: it cannot answer there.
        """
        self._load(model)
        return (
            self._admin("POST", "/models", {"model": with_absolute_script(model)}).get("priced")
            is True
        )

    @contextmanager
    def run(self, terms: RunTerms) -> Iterator[OpenModelAccess]:
        """An open run; all its tokens are worth nothing afterwards.

        Raises:
            ModelUnavailable: the gateway does not answer.
        """
        said = {with_absolute_script(model): count for model, count in terms.replies_given.items()}
        here = terms.model_copy(update={"trajectory": terms.trajectory.absolute(), "said": said})
        self._admin("POST", "/runs", here.model_dump(mode="json"))
        try:
            yield lambda token_terms: self._gate(terms.run_id, token_terms)
        finally:
            self._admin("DELETE", f"/runs/{terms.run_id}")

    @contextmanager
    def _gate(self, run_id: str, terms: TokenSpec) -> Iterator[ModelAccess]:
        self._load(terms.model)
        here = replace(terms, model=with_absolute_script(terms.model))
        made = self._admin("POST", f"/runs/{run_id}/tokens", asdict(here))
        held = {**self._host, "x-token": str(made["token"])}
        wait_s = terms.bounds.wait_s if terms.bounds else 0.0
        try:
            yield ModelAccess(
                token=held["x-token"],
                complete=lambda request: self._complete(held["x-token"], request, wait_s),
                current_usage=lambda: _spent(self._admin("GET", "/spent", headers=held)),
                final_usage=lambda: _spent(self._admin("GET", "/settled", headers=held)),
            )
        finally:
            self._admin("DELETE", "/tokens", headers=held)

    def _load(self, model: str) -> None:
        """Wait until the gateway can call providers; scripted models need none."""
        if self._loaded or is_scripted(model):
            return
        on_wait = self._watch_loading()
        while self._admin("POST", "/load").get("loaded") is not True:
            on_wait()
        self._loaded = True

    def _complete(self, token: str, request: ChatRequest, wait_s: float) -> Reply:
        response = self._ask(
            "POST",
            "/v1/chat/completions",
            content=_body(request),
            headers={"authorization": f"Bearer {token}"},
            timeout=request.timeout_s + _PATIENCE_S + wait_s,
        )
        kind = response.headers.get("x-harness-error")
        if kind == "budget":
            return Reply(message=_said(response), stop_reason=BUDGET_EXCEEDED)
        if kind is not None:
            raise _error(kind, _said(response).content)
        return _reply(response.content)

    def embed(self, token: str, ask: EmbeddingRequest) -> Sequence[Sequence[float]]:
        """One vector for each text, in the order of the texts.

        `token` is for the model that makes them.

        Raises:
            ModelRefused: it does not take one of the texts.
            ModelUnavailable: no key, no such model, no answer, or no gateway.
        """
        response = self._ask(
            "POST",
            "/v1/embeddings",
            content=ask.model_dump_json().encode(),
            headers={"authorization": f"Bearer {token}"},
            timeout=ask.harness_timeout_s * len(ask.input) + _PATIENCE_S,
        )
        kind = response.headers.get("x-harness-error")
        if kind is not None:
            raise _error(kind, _said(response).content)
        return [row.embedding for row in _Vectors.model_validate_json(response.content).data]

    def _admin(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, object]:
        response = self._ask(
            method,
            f"/admin{path}",
            content=json.dumps(body).encode(),
            headers=headers or self._host,
            timeout=_PATIENCE_S,
        )
        kind = response.headers.get("x-harness-error")
        if kind is not None:
            raise _error(kind, response.json()["error"])
        found: Mapping[str, object] = response.json()
        return found

    def _ask(
        self, method: str, path: str, *, content: bytes, headers: Mapping[str, str], timeout: float
    ) -> "httpx.Response":
        import httpx

        try:
            response = self._client.request(
                method, path, content=content, headers=dict(headers), timeout=timeout
            )
        except httpx.TimeoutException as error:
            raise ModelUnavailable(f"the gateway gave no answer in {timeout:g} s") from error
        except httpx.HTTPError as error:
            raise ModelUnavailable(
                f"the gateway at {self.url} does not answer ({error}): `harness up` starts it"
            ) from error
        if response.is_error and "x-harness-error" not in response.headers:
            raise ModelUnavailable(
                f"the gateway failed ({response.status_code} for {path}): see gateway/gateway.log"
            )
        return response


def with_absolute_script(model: str) -> str:
    """The model as the gateway can find it, whose current folder is not ours."""
    return f"{SCRIPTED_PREFIX}{script_path(model).absolute()}" if is_scripted(model) else model


class _Choice(BaseModel, frozen=True, extra="ignore"):
    message: dict[str, object]
    finish_reason: str


class _Answer(BaseModel, frozen=True, extra="ignore"):
    choices: list[_Choice] = Field(min_length=1)
    usage: dict[str, object]


class _Row(BaseModel, frozen=True, extra="ignore"):
    embedding: list[float]


class _Vectors(BaseModel, frozen=True, extra="ignore"):
    data: list[_Row]


def _body(request: ChatRequest) -> bytes:
    body: dict[str, object] = {
        "model": request.model,
        "messages": [message_to_openai(message) for message in request.messages],
        "harness_timeout_s": request.timeout_s,
    }
    if request.tools:
        body["tools"] = tools_to_openai(request.tools)
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.response_schema is not None:
        body["response_format"] = response_format(request.response_schema)
    return json.dumps(body).encode()


def _reply(content: bytes) -> Reply:
    answer = _Answer.model_validate_json(content)
    cost = answer.usage.get("cost_usd")
    usage = usage_from(answer.usage)
    return Reply(
        message=message_from_openai(answer.choices[0].message),
        usage=replace(usage, cost_usd=cost if isinstance(cost, float) else 0.0),
        stop_reason=answer.choices[0].finish_reason,
    )


def _said(response: "httpx.Response") -> Message:
    return Message(role="assistant", content=str(response.json()["error"]["message"]))


def _error(kind: str, message: str) -> HarnessError:
    match kind:
        case "option":
            return OptionInvalid(message)
        case "request":
            return BadInput(message)
        case "refused":
            return ModelRefused(message)
        case _:
            return ModelUnavailable(message)


def _spent(raw: Mapping[str, object]) -> AgentUsage:
    return SPENT_JSON.validate_python(raw)
