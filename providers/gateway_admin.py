"""The gateway's host side: runs begin and end here, and tokens are given out.

POST   /admin/runs                   RunTerms: begin a run
DELETE /admin/runs/{run_id}          end it; what it spent in all
POST   /admin/runs/{run_id}/tokens   Terms: a token for one agent
GET    /admin/spent                  what the token in `x-token` spent
GET    /admin/settled                the same, when nothing of it is under way any more
DELETE /admin/tokens                 end the token in `x-token`; what it spent
POST   /admin/load                   begin to load litellm; is it loaded, after a second at most
POST   /admin/models                 {"model"}: can it be called from here, has it a price
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from hmac import compare_digest

from pydantic import BaseModel, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contracts.chat import Usage
from contracts.errors import BadInput, HarnessError
from contracts.model_access import AgentUsage, TokenSpec
from providers.account import SPENT_JSON, RequestRefused
from providers.litellm_setup import load_litellm
from providers.open_runs import OpenRuns
from providers.prices import has_price
from providers.run_account import RunTerms

LOAD_ANSWER_S = 1.0
"""How long `/admin/load` waits before it says that litellm is not loaded yet."""

CheckModel = Callable[[str], None]
"""Raises OptionInvalid or ModelUnavailable for a model that cannot answer here."""

_TERMS = TypeAdapter(TokenSpec)
_USAGE = TypeAdapter(Usage)

_Work = Callable[[Request, bytes], object]


class CheckModelRequest(BaseModel, frozen=True, extra="forbid"):
    """Which model is asked about."""

    model: str


def admin_routes(ledger: OpenRuns, *, secret: str, check_model: CheckModel) -> list[Route]:
    """The routes under /admin; each asks for `secret` as a bearer token."""

    def open_run(_: Request, body: bytes) -> object:
        ledger.reap()
        ledger.open_run(RunTerms.model_validate_json(body))
        return {}

    def close_run(request: Request, _: bytes) -> object:
        return _USAGE.dump_python(ledger.close_run(request.path_params["run_id"]))

    def open_token(request: Request, body: bytes) -> object:
        terms = _TERMS.validate_json(body)
        return {"token": ledger.open_token(request.path_params["run_id"], terms)}

    def spent(request: Request, _: bytes) -> object:
        return _spent_json(ledger.account(request.headers.get("x-token", "")).spent())

    def settled(request: Request, _: bytes) -> object:
        return _spent_json(ledger.account(request.headers.get("x-token", "")).settled())

    def close_token(request: Request, _: bytes) -> object:
        return _spent_json(ledger.close_token(request.headers.get("x-token", "")))

    def load(_: Request, __: bytes) -> object:
        return {"loaded": load_litellm(wait_s=LOAD_ANSWER_S)}

    def ask_about(_: Request, body: bytes) -> object:
        model = CheckModelRequest.model_validate_json(body).model
        check_model(model)
        return {"priced": has_price(model)}

    def route(path: str, method: str, work: _Work) -> Route:
        return Route(f"/admin{path}", _guarded(work, secret), methods=[method])

    return [
        route("/runs", "POST", open_run),
        route("/runs/{run_id}", "DELETE", close_run),
        route("/runs/{run_id}/tokens", "POST", open_token),
        route("/spent", "GET", spent),
        route("/settled", "GET", settled),
        route("/tokens", "DELETE", close_token),
        route("/load", "POST", load),
        route("/models", "POST", ask_about),
    ]


def _guarded(work: _Work, secret: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not compare_digest(given.encode(), secret.encode()):
            return _failed("only the host may ask this", "token", 403)
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


def _failed(message: str, kind: str, status: int) -> Response:
    return JSONResponse({"error": message}, status, {"x-harness-error": kind})


def _spent_json(spent: AgentUsage) -> object:
    plain = replace(spent, tool_calls=dict(spent.tool_calls))
    return SPENT_JSON.dump_python(plain, mode="json")
