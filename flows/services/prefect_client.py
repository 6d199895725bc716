"""A Prefect server asked as Prefect's own client asks it, with one error for what goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from contracts.errors import PrefectUnavailable

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@contextmanager
def use_server(api: str) -> Iterator[None]:
    """Prefect's settings with this server, and without Prefect's own heartbeat, in the block."""
    from prefect.context import SettingsContext, get_settings_context
    from prefect.settings import PREFECT_API_URL, temporary_settings

    # Much follows from the address, so Prefect then reads all settings anew, which takes 45 ms.
    known = PREFECT_API_URL.value() == api
    with nullcontext() if known else temporary_settings({PREFECT_API_URL: api}):
        profile, settings = get_settings_context().profile, get_settings_context().settings
        flows = settings.flows.model_copy(update={"heartbeat_frequency": None})
        meant = settings.model_copy(update={"flows": flows})
        with SettingsContext(profile=profile, settings=meant):
            yield


@contextmanager
def prefect_client(api: str) -> "Iterator[SyncPrefectClient]":
    """A client of the server at `api`, until the block ends.

    Raises:
        PrefectUnavailable: it does not answer, refuses us, or is of another version.
    """
    from httpx import HTTPError
    from prefect import get_client

    try:
        with use_server(api), get_client(sync_client=True) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} failed us: {error}") from error


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error
