"""Let a run continue, and end soon, when its Prefect server stops answering.

Prefect's client repeats each failed request for a minute, and a run makes many. While the server is
down, the requests of a run therefore fail at once, and what they would have shown is left out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

import httpx
from prefect import get_run_logger
from prefect.context import SettingsContext, SyncClientContext, get_settings_context
from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker

if TYPE_CHECKING:
    from prefect.settings.models.logging import LoggingToAPISettings

POLL_S = 1.0
"""Seconds between two checks of the server."""

GRACE_S = 3.0
"""Seconds without an answer after which the server counts as down."""

_GATEWAY_ERRORS = {httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT}
"""What a proxy answers while the server behind it is down."""


class ServerUnreachable(httpx.TransportError):
    """The server counts as down, so this request is not sent."""


@contextmanager
def survive_outages(api: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Check the server until the block ends; while it is down, each request fails at once.

    Requests, logs and events are sent again as soon as the server answers. `warn` gets one line
    when the server is down for the first time, and one when it answers again.
    """
    is_down, is_over = Event(), Event()

    def refuse(_: httpx.Request) -> None:
        if is_down.is_set():
            raise ServerUnreachable(f"the Prefect server at {api} is down")

    context = get_settings_context()
    settings = context.settings
    to_api = settings.logging.to_api.model_copy()
    logging = settings.logging.model_copy(update={"to_api": to_api})
    own = settings.model_copy(update={"logging": logging})
    hasty = settings.client.model_copy(update={"max_retries": 1})
    # Events that cannot be sent are kept and sent at the next connection; with Prefect's own ten
    # attempts each event would delay the end of the process by seven seconds.
    EventsWorker.set_client_override(PrefectEventsClient, api_url=api, reconnection_attempts=1)
    with SettingsContext(
        profile=context.profile, settings=settings.model_copy(update={"client": hasty})
    ):
        # The process ends when these threads have sent all; they keep the settings of their start.
        EventsWorker.instance()
        APILogWorker.instance()
    watch = Thread(
        target=_watch, args=(api, to_api, is_down, is_over, warn), name="server outage", daemon=True
    )
    watch.start()
    try:
        with (
            SettingsContext(profile=context.profile, settings=own),
            SyncClientContext.get_or_create() as clients,  # shared by the flow and its tasks
        ):
            clients.client._client.event_hooks["request"].append(refuse)
            yield
    finally:
        is_over.set()
        EventsWorker.set_client_override(None)


@contextmanager
def ignore_outage(subject: str) -> Iterator[None]:
    """Log a warning instead of raising when the Prefect server is down.

    For requests that only show the run in Prefect, such as an artifact: no work is lost.
    """
    try:
        yield
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        if not is_outage(error):
            raise
        get_run_logger().warning("%s is not shown: the Prefect server did not answer", subject)


def is_outage(error: Exception) -> bool:
    """Return True if the server did not answer or failed; a refused request is not an outage."""
    match error:
        case httpx.TransportError():
            return True
        case PrefectHTTPStatusError():
            return error.response.is_server_error
        case _:
            return False


def _watch(
    api: str,
    logs: "LoggingToAPISettings",
    is_down: Event,
    is_over: Event,
    warn: Callable[[str], None],
) -> None:
    logs_enabled, warned_down, warned_up = logs.enabled, False, False
    silent_since: float | None = None
    while not is_over.wait(POLL_S):
        if _answers(api):
            silent_since = None
            was_down = is_down.is_set()
            is_down.clear()
            if was_down and not warned_up:
                warned_up = True
                warn(f"the Prefect server at {api} answers again")
        elif silent_since is None:
            silent_since = monotonic()
        elif monotonic() - silent_since >= GRACE_S:
            is_down.set()
        logs.enabled = logs_enabled and not is_down.is_set()
        if is_down.is_set() and not warned_down:
            warned_down = True
            warn(
                f"the Prefect server at {api} stopped answering: the run goes on without it, and "
                "Prefect shows how it ended once the server answers again (`harness up`)"
            )


def _answers(api: str) -> bool:
    """Return True if a server is there; a busy server answers late, but accepts connections."""
    try:
        response = httpx.get(f"{api}/health", timeout=5.0, verify=api.startswith("https:"))
    except httpx.TimeoutException as error:
        return not isinstance(error, httpx.ConnectTimeout)
    except httpx.TransportError:
        return False
    return response.status_code not in _GATEWAY_ERRORS
