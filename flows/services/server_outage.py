"""Let a run go on, and end soon, when its Prefect server stops answering.

Prefect's client repeats each failed request for a minute, and a run makes many. While the server is
away, the requests of a run therefore fail at once, and what they would have shown is left out.
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

LOOK_S = 1.0
"""Seconds between two looks at whether the server answers."""

PATIENCE_S = 3.0
"""Seconds without an answer after which the server counts as away."""

_GATEWAY_ERRORS = {httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT}
"""What a proxy answers while the server behind it is gone."""


class ServerUnreachable(httpx.TransportError):
    """The server counts as away, so this request is not even tried."""


@contextmanager
def survive_outages(api: str, warn: Callable[[str], None]) -> Iterator[None]:
    """Watch the server until the block ends; while it is away, each request fails at once.

    Requests, logs and events are sent again as soon as the server answers. `tell` gets one line,
    the first time that the server is away.
    """
    away, over = Event(), Event()

    def refuse(_: httpx.Request) -> None:
        if away.is_set():
            raise ServerUnreachable(f"the Prefect server at {api} is away")

    context = get_settings_context()
    settings = context.settings
    to_api = settings.logging.to_api.model_copy()
    logging = settings.logging.model_copy(update={"to_api": to_api})
    own = settings.model_copy(update={"logging": logging})
    hasty = settings.client.model_copy(update={"max_retries": 1})
    # Events that cannot be sent are kept and sent at the next connection; with Prefect's own ten
    # attempts each event would hold up the end of the process for seven seconds.
    EventsWorker.set_client_override(PrefectEventsClient, api_url=api, reconnection_attempts=1)
    with SettingsContext(
        profile=context.profile, settings=settings.model_copy(update={"client": hasty})
    ):
        # The process ends when these threads have sent all; they keep the settings of their start.
        EventsWorker.instance()
        APILogWorker.instance()
    watch = Thread(
        target=_watch, args=(api, to_api, away, over, warn), name="server outage", daemon=True
    )
    watch.start()
    try:
        with (
            SettingsContext(profile=context.profile, settings=own),
            SyncClientContext.get_or_create() as clients,  # the flow and its tasks share it
        ):
            clients.client._client.event_hooks["request"].append(refuse)
            yield
    finally:
        over.set()
        EventsWorker.set_client_override(None)


@contextmanager
def ignore_outage(what: str) -> Iterator[None]:
    """Log a warning instead of raising when the Prefect server is away.

    For what only shows the run in Prefect, such as an artifact: the work itself is not lost.
    """
    try:
        yield
    except (httpx.TransportError, PrefectHTTPStatusError) as error:
        if not is_outage(error):
            raise
        get_run_logger().warning("%s is not shown: the Prefect server did not answer", what)


def is_outage(error: Exception) -> bool:
    """Whether the server did not answer, or could not; a refused request is no outage."""
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
    away: Event,
    over: Event,
    tell: Callable[[str], None],
) -> None:
    wanted, told = logs.enabled, False
    silent_since: float | None = None
    while not over.wait(LOOK_S):
        if not _is_away(api):
            silent_since = None
            away.clear()
        elif silent_since is None:
            silent_since = monotonic()
        elif monotonic() - silent_since >= PATIENCE_S:
            away.set()
        logs.enabled = wanted and not away.is_set()
        if away.is_set() and not told:
            told = True
            tell(
                f"the Prefect server at {api} stopped answering: the run goes on without it, and "
                "Prefect shows how it ended once the server answers again (`harness up`)"
            )


def _is_away(api: str) -> bool:
    """Whether nobody answers; a server that is busy does, only late."""
    try:
        said = httpx.get(f"{api}/health", timeout=5.0, verify=api.startswith("https:"))
    except httpx.TimeoutException as error:
        return isinstance(error, httpx.ConnectTimeout)
    except httpx.TransportError:
        return True
    return said.status_code in _GATEWAY_ERRORS
