"""The client of the gateway's HTTP API: a process that runs a flow never imports litellm."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from contracts.chat import ChatRequest, Message, Reply, model_names
from contracts.errors import BadInput, HarnessError, ModelRefused, ModelUnavailable, OptionInvalid
from contracts.model_access import (
    BUDGET_EXCEEDED,
    AgentUsage,
    ModelAccess,
    OpenModelAccess,
    TokenSpec,
)
from providers.embed import EmbeddingAnswer, EmbeddingRequest
from providers.gateway_api import AGENT_USAGE, ERROR_HEADER, RunTerms
from providers.models import needs_litellm
from providers.openai_messages import (
    ChatAnswer,
    message_from_openai,
    message_to_openai,
    response_format,
    tools_to_openai,
    usage_from,
)
from providers.scripted import SCRIPTED_PREFIX, is_scripted, script_path

if TYPE_CHECKING:
    import httpx

_GATEWAY_TIMEOUT_S = 300.0
"""How much longer than the model a request waits. Long, because the machine may be busy; if the
gateway's process ends, the request fails at once."""

_FIRST_LINE_S = 3.0
_LINE_EVERY_S = 30.0
_POLL_S = 0.2


class _BudgetExceeded(ModelUnavailable):
    """A limit of the token or of the run is reached."""


class Gateway:
    """The gateway at `url`, such as `http://127.0.0.1:4180`. Thread-safe.

    It connects at its first request. `secret` opens the admin API: runs and tokens. `say` gets a
    line when a caller waits for more than 3 s for the gateway to be ready.
    """

    def __init__(
        self, url: str, secret: str = "", *, say: Callable[[str], None] = lambda _: None
    ) -> None:
        import httpx  # takes 60 ms, which `harness --help` does not need

        self.url = url
        self._say = say
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(
                limits=httpx.Limits(max_connections=None),
                verify=False,  # loading certificates takes 40 ms, and this is plain HTTP
            ),
            base_url=url,
            trust_env=False,
        )
        self._admin_headers = {"authorization": f"Bearer {secret}"}

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def connect(self) -> socket.socket:
        """Return a new connection, for a port in a sandbox that leads to the gateway.

        Raises:
            OSError: the gateway does not listen.
        """
        parts = urlsplit(self.url)
        connection = socket.create_connection((parts.hostname, parts.port), timeout=10.0)
        connection.settimeout(None)  # models think for longer than 10 s
        return connection

    def open_runs(self) -> int | None:
        """Return how many runs are open; None if the gateway does not answer within 5 s."""
        import httpx

        try:
            count = self._client.get("/health", timeout=5.0).json()["runs"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        return count if isinstance(count, int) else None

    def check_model(self, model: str) -> bool:
        """Return whether the model has a price, so that a budget in dollars can stop it.

        Raises:
            OptionInvalid, ModelUnavailable: the model cannot answer at the gateway.
        """
        self._wait_until_loaded(model)
        body = {"model": with_absolute_script(model)}
        return self._admin("POST", "/models", body).get("priced") is True

    @contextmanager
    def run(self, terms: RunTerms) -> Iterator[OpenModelAccess]:
        """Open a run; its tokens are refused after the block.

        Raises:
            ModelUnavailable: the gateway does not answer.
        """
        given = {with_absolute_script(m): count for m, count in terms.replies_given.items()}
        absolute = {"trajectory": terms.trajectory.absolute(), "replies_given": given}
        self._admin("POST", "/runs", terms.model_copy(update=absolute).model_dump(mode="json"))
        try:
            yield lambda spec: self._open_token(terms, spec)
        finally:
            self._admin("DELETE", f"/runs/{terms.run_id}")

    @contextmanager
    def _open_token(self, terms: RunTerms, spec: TokenSpec) -> Iterator[ModelAccess]:
        if terms.replay is None:
            self._wait_until_loaded(spec.model)
        absolute = replace(spec, model=with_absolute_script(spec.model))
        opened = self._admin("POST", f"/runs/{terms.run_id}/tokens", asdict(absolute))
        token, context = str(opened["token"]), opened["context"]
        wait_s = spec.bounds.wait_s if spec.bounds else 0.0

        def usage(method: str, path: str) -> AgentUsage:
            return AGENT_USAGE.validate_python(self._admin(method, path, token=token))

        try:
            yield ModelAccess(
                token=token,
                complete=lambda request: self._complete(token, request, wait_s),
                current_usage=lambda: usage("GET", "/spent"),
                final_usage=lambda: usage("GET", "/settled"),
                context_tokens=context if isinstance(context, int) else None,
            )
        finally:
            usage("DELETE", "/tokens")

    def _wait_until_loaded(self, models: str) -> None:
        """Wait until the gateway has imported litellm, if one of the models needs it.

        That takes 4 s, and minutes on a busy machine.
        """
        began = time.monotonic()
        next_line_s = _FIRST_LINE_S
        while needs_litellm(models) and not self._admin("POST", "/litellm")["loaded"]:
            waited_s = time.monotonic() - began
            if waited_s >= next_line_s:
                next_line_s += _LINE_EVERY_S
                self._say(f"the gateway is still loading litellm ({waited_s:.0f} s)")
            time.sleep(_POLL_S)

    def _complete(self, token: str, request: ChatRequest, wait_s: float) -> Reply:
        timeout_s = request.timeout_s + wait_s
        try:
            answer = self._with_token(token, "/v1/chat/completions", _body(request), timeout_s)
        except _BudgetExceeded as error:
            message = Message(role="assistant", content=str(error))
            return Reply(message=message, stop_reason=BUDGET_EXCEEDED)
        return _reply(answer.content)

    def embed(self, token: str, request: EmbeddingRequest) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in the order of the texts.

        `token` was opened for the embedding model.

        Raises:
            ModelRefused: the model does not accept one of the texts.
            ModelUnavailable: no key, no such model, no answer, or no gateway.
        """
        timeout_s = request.harness_timeout_s * len(request.input)
        body = request.model_dump_json().encode()
        answer = self._with_token(token, "/v1/embeddings", body, timeout_s)
        return [row.embedding for row in EmbeddingAnswer.model_validate_json(answer.content).data]

    def _with_token(self, token: str, path: str, body: bytes, timeout_s: float) -> "httpx.Response":
        headers = {"authorization": f"Bearer {token}"}
        return self._send("POST", path, body, headers, timeout_s)

    def _admin(
        self, method: str, path: str, body: object = None, *, token: str = ""
    ) -> Mapping[str, object]:
        headers = {**self._admin_headers, "x-token": token}
        response = self._send(method, f"/admin{path}", json.dumps(body).encode(), headers)
        answer: Mapping[str, object] = response.json()
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float = 0.0,
    ) -> "httpx.Response":
        import httpx

        timeout_s += _GATEWAY_TIMEOUT_S
        try:
            response = self._client.request(
                method, path, content=body, headers=dict(headers), timeout=timeout_s
            )
        except httpx.TimeoutException as error:
            raise ModelUnavailable(f"the gateway gave no answer in {timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise ModelUnavailable(
                f"the gateway at {self.url} does not answer ({error}): `harness up` starts it"
            ) from error
        kind = response.headers.get(ERROR_HEADER)
        if kind is not None:
            raise _error(kind, str(response.json()["error"]["message"]))
        if response.is_error:
            raise ModelUnavailable(
                f"the gateway failed ({response.status_code} for {path}): see gateway/gateway.log"
            )
        return response


def with_absolute_script(model: str) -> str:
    """Return scripted models with absolute paths: the gateway has another current folder."""
    return ", ".join(
        f"{SCRIPTED_PREFIX}{script_path(name).absolute()}" if is_scripted(name) else name
        for name in model_names(model)
    )


def _error(kind: str, message: str) -> HarnessError:
    match kind:
        case "budget":
            return _BudgetExceeded(message)
        case "option":
            return OptionInvalid(message)
        case "request":
            return BadInput(message)
        case "refused":
            return ModelRefused(message)
        case _:
            return ModelUnavailable(message)


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
    answer = ChatAnswer.model_validate_json(content)
    usage = answer.usage or {}
    cost = usage.get("cost_usd")
    return Reply(
        message=message_from_openai(answer.choices[0].message),
        usage=replace(usage_from(usage), cost_usd=cost if isinstance(cost, float) else 0.0),
        stop_reason=answer.choices[0].finish_reason,
        model=answer.model or "",
    )
