"""The runs that are open at the gateway, and their tokens."""

import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hmac import compare_digest
from secrets import token_urlsafe

from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contracts.chat import Usage, model_names
from contracts.errors import BadInput, HarnessError, ModelUnavailable
from contracts.model_access import AgentUsage, MakeGuard, TokenSpec
from providers.account import Account, RequestRefused, RunAccount
from providers.call_model import Sleep
from providers.gateway_api import AGENT_USAGE, ERROR_HEADER, CheckModelRequest, RunTerms
from providers.models import context_tokens, has_price, litellm_import
from providers.trajectory import Redact

TOKEN_PREFIX = "hrn-"  # noqa: S105 - not a token, only what one begins with

IsDead = Callable[[str], bool]
"""Returns True if the process with this label has exited for sure."""


class OpenRuns:
    """All open runs and their tokens. Thread-safe."""

    def __init__(
        self,
        *,
        make_guard: MakeGuard,
        redact: Redact,
        sleep: Sleep = time.sleep,
        is_dead: IsDead = lambda _: False,
    ) -> None:
        self._make_guard = make_guard
        self._is_dead = is_dead
        self._sleep = sleep
        self._redact = redact
        self._runs: dict[str, RunAccount] = {}
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """Number of open runs."""
        return len(self._runs)

    def open_run(self, terms: RunTerms) -> None:
        """Open a run; an earlier one with the same id is closed."""
        self.close_run(terms.run_id)
        with self._lock:
            self._runs[terms.run_id] = RunAccount(terms, self._redact, self._sleep)

    def close_run(self, run_id: str) -> Usage:
        """Close a run with all its tokens and return its total cost."""
        with self._lock:
            run = self._runs.pop(run_id, None)
            tokens = [token for token, a in self._accounts.items() if a.run is run]
            for token in tokens:
                self._accounts.pop(token).closed.set()
        if run is None:
            return Usage()
        run.trajectory.close()
        return run.usage

    def close_abandoned(self) -> None:
        """Close the runs whose time is over or whose process has exited."""
        now = time.monotonic()
        for run_id, run in list(self._runs.items()):
            if run.ends_at < now or self._is_dead(run.terms.process):
                self.close_run(run_id)

    def open_token(self, run_id: str, spec: TokenSpec) -> str:
        """Return a new token of a run.

        Raises:
            RequestRefused: the run is not open.
        """
        guard = self._make_guard(run_id, spec)
        token = TOKEN_PREFIX + token_urlsafe(24)
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                raise RequestRefused(f"run {run_id!r} is not open here", kind="token", status=404)
            self._accounts[token] = Account(spec=spec, run=run, guard=guard)
            run.secrets.append(token)
        return token

    def close_token(self, token: str) -> AgentUsage:
        """Close a token and return what was spent; nothing if it was closed before."""
        with self._lock:
            account = self._accounts.pop(token, None)
        if account is None:
            return AgentUsage()
        account.closed.set()
        return account.current_usage()

    def account(self, token: str) -> Account:
        """Return the account of a token.

        Raises:
            RequestRefused: the token is unknown, or its run is over.
        """
        account = self._accounts.get(token)
        if account is None or account.run.ends_at < time.monotonic():
            message = (
                "no open run has this token: its run or its node is over, or the gateway was "
                "restarted"
            )
            raise RequestRefused(message, kind="token", status=401)
        return account


CheckModel = Callable[[str], None]
"""Raises OptionInvalid or ModelUnavailable for a model that cannot answer here."""

_TOKEN_SPEC = TypeAdapter(TokenSpec)
_USAGE = TypeAdapter(Usage)

_Work = Callable[[Request, bytes], object]


def admin_routes(open_runs: OpenRuns, *, secret: str, check_model: CheckModel) -> list[Route]:
    """Return the routes under /admin; each needs `secret` as a bearer token."""

    def open_run(_: Request, body: bytes) -> object:
        open_runs.close_abandoned()
        open_runs.open_run(RunTerms.model_validate_json(body))
        return {}

    def close_run(request: Request, _: bytes) -> object:
        return _USAGE.dump_python(open_runs.close_run(request.path_params["run_id"]))

    def open_token(request: Request, body: bytes) -> object:
        spec = _TOKEN_SPEC.validate_json(body)
        token = open_runs.open_token(request.path_params["run_id"], spec)
        is_replay = open_runs.account(token).run.terms.replay is not None  # needs no litellm
        known = () if is_replay else map(context_tokens, model_names(spec.model))
        return {"token": token, "context": min(filter(None, known), default=None)}

    def spent(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.account(_token(request)).current_usage())

    def settled(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.account(_token(request)).final_usage())

    def close_token(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.close_token(_token(request)))

    def load_litellm(_: Request, __: bytes) -> object:
        loading = litellm_import()
        error = loading.exception() if loading.done() else None
        if error is not None:
            raise ModelUnavailable(f"litellm cannot be imported: {error}") from error
        return {"loaded": loading.done()}

    def check(_: Request, body: bytes) -> object:
        model = CheckModelRequest.model_validate_json(body).model
        check_model(model)
        return {"priced": has_price(model)}

    def route(path: str, method: str, work: _Work) -> Route:
        return Route(f"/admin{path}", _endpoint(work, secret), methods=[method])

    return [
        route("/runs", "POST", open_run),
        route("/runs/{run_id}", "DELETE", close_run),
        route("/runs/{run_id}/tokens", "POST", open_token),
        route("/spent", "GET", spent),
        route("/settled", "GET", settled),
        route("/tokens", "DELETE", close_token),
        route("/litellm", "POST", load_litellm),
        route("/models", "POST", check),
    ]


def _endpoint(work: _Work, secret: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not compare_digest(bearer.encode(), secret.encode()):
            return _failed("only the host may use /admin", "token", 403)
        body = await request.body()
        try:
            return JSONResponse(await run_in_threadpool(work, request, body))
        except RequestRefused as error:
            return _failed(str(error), error.kind, error.status)
        except HarnessError as error:
            return _failed(str(error), "option" if isinstance(error, BadInput) else "model", 400)
        except ValueError as error:
            return _failed(str(error), "request", 400)

    return endpoint


def _token(request: Request) -> str:
    return request.headers.get("x-token", "")


def _failed(message: str, kind: str, status: int) -> Response:
    return JSONResponse({"error": {"message": message}}, status, {ERROR_HEADER: kind})


def _usage_json(usage: AgentUsage) -> object:
    plain = replace(usage, answers=dict(usage.answers), tool_calls=dict(usage.tool_calls))
    return AGENT_USAGE.dump_python(plain, mode="json")
