"""The gateway's HTTP API for the host: runs, tokens and models.

POST   /admin/runs                   RunTerms: open a run
DELETE /admin/runs/{run_id}          close it; returns its total cost
POST   /admin/runs/{run_id}/tokens   TokenSpec: open a token for one agent
GET    /admin/spent                  what the token in `x-token` has spent
GET    /admin/settled                the same, once none of its requests is under way
DELETE /admin/tokens                 close the token in `x-token`; returns what it spent
POST   /admin/models                 {"model"}: fails if it cannot be called; returns `priced`
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from hmac import compare_digest

from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contracts.chat import Usage
from contracts.errors import BadInput, HarnessError
from contracts.model_access import AgentUsage, TokenSpec
from providers.account import RequestRefused
from providers.gateway_api import AGENT_USAGE, ERROR_HEADER, CheckModelRequest, RunTerms
from providers.open_runs import OpenRuns
from providers.prices import has_price

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
        return {"token": open_runs.open_token(request.path_params["run_id"], spec)}

    def spent(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.account(_token(request)).current_usage())

    def settled(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.account(_token(request)).final_usage())

    def close_token(request: Request, _: bytes) -> object:
        return _usage_json(open_runs.close_token(_token(request)))

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
    plain = replace(usage, tool_calls=dict(usage.tool_calls))
    return AGENT_USAGE.dump_python(plain, mode="json")
