"""The webhook receiver; `harness up` runs it as `python -m app.web.webhooks`."""

from collections.abc import Callable
from functools import partial

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from contracts.errors import HarnessError, Unavailable, WebhookRefused
from flows.config.settings import Settings, load_settings
from flows.services.webhooks import receive, receive_from_gitlab

MAX_BODY_BYTES = 5 * 1024 * 1024


def create_receiver(settings: Settings) -> FastAPI:
    """Return the application. `POST /github`, also for Gitea, and `POST /gitlab` answer 202
    accepted, 403 refused, 503 try again."""
    made = FastAPI(title="Harness webhooks", docs_url=None, redoc_url=None, openapi_url=None)

    @made.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @made.post("/github")
    async def github(request: Request) -> Response:
        headers = request.headers
        return await _answer(
            request,
            partial(
                receive,
                settings,
                event=headers.get("x-github-event", ""),
                signature=headers.get("x-hub-signature-256", ""),
                delivery=headers.get("x-github-delivery", ""),
            ),
        )

    @made.post("/gitlab")
    async def gitlab(request: Request) -> Response:
        token = request.headers.get("x-gitlab-token", "")
        return await _answer(request, partial(receive_from_gitlab, settings, token=token))

    return made


async def _answer(request: Request, take: Callable[[bytes], str]) -> Response:
    body = await _read_body(request)
    if body is None:
        return _message(413, f"more than {MAX_BODY_BYTES} bytes")
    return await run_in_threadpool(_take, take, body)


def _take(take: Callable[[bytes], str], body: bytes) -> Response:
    try:
        result = take(body)
    except WebhookRefused as error:
        return _message(403, str(error))
    except Unavailable as error:
        return _message(503, str(error))
    except HarnessError as error:
        return _message(400, str(error))
    return _message(202, result)


async def _read_body(request: Request) -> bytes | None:
    """Return the body, or None as soon as it exceeds the limit."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _message(status: int, line: str) -> JSONResponse:
    return JSONResponse({"message": line}, status_code=status)


if __name__ == "__main__":
    loaded = load_settings()
    receiver = create_receiver(loaded)
    host, port = loaded.webhooks.host, loaded.webhooks.port
    uvicorn.run(receiver, host=host, port=port, access_log=False)
