"""The receiver of webhooks; `python -m app.web.webhooks` is what `harness up` keeps."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from contracts.errors import HarnessError, Unavailable, WebhookRefused
from flows.config.settings import Settings, load_settings
from flows.services.receiver import receive

MAX_BODY_BYTES = 5 * 1024 * 1024


def create_receiver(settings: Settings) -> FastAPI:
    """`POST /github` takes a delivery: 202 taken, 403 refused, 503 come again."""
    made = FastAPI(title="Harness webhooks", docs_url=None, redoc_url=None, openapi_url=None)

    @made.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @made.post("/github")
    async def github(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _said(413, f"more than {MAX_BODY_BYTES} bytes")
        said = request.headers
        return await run_in_threadpool(
            _answer,
            settings,
            body,
            event=said.get("x-github-event", ""),
            signature=said.get("x-hub-signature-256", ""),
            delivery=said.get("x-github-delivery", ""),
        )

    return made


def _answer(
    settings: Settings, body: bytes, *, event: str, signature: str, delivery: str
) -> Response:
    try:
        came_of_it = receive(settings, body, event=event, signature=signature, delivery=delivery)
    except HarnessError as error:
        match error:
            case WebhookRefused():
                status = 403
            case Unavailable():
                status = 503
            case _:
                status = 400
        return _said(status, str(error))
    return _said(202, came_of_it)


async def _body(request: Request) -> bytes | None:
    """All of it; None when it is too long, which nobody waits for."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _said(status: int, line: str) -> JSONResponse:
    return JSONResponse({"message": line}, status_code=status)


if __name__ == "__main__":
    import uvicorn

    here = load_settings()
    site = create_receiver(here)
    uvicorn.run(site, host=here.webhooks.host, port=here.webhooks.port, access_log=False)
