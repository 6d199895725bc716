"""Clients of a Prefect server, with one error for everything that goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from contracts.errors import PrefectUnavailable

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@contextmanager
def use_server(api: str) -> Iterator[None]:
    """Make Prefect use this server until the block ends."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    is_current = PREFECT_API_URL.value() == api
    with nullcontext() if is_current else temporary_settings({PREFECT_API_URL: api}):
        yield


@contextmanager
def prefect_client(api: str) -> "Iterator[SyncPrefectClient]":
    """Give a client of the server at `api`, until the block ends.

    Raises:
        PrefectUnavailable: the server does not answer, refuses a request, or has another version.
    """
    from httpx import HTTPError
    from prefect import get_client

    try:
        with use_server(api), get_client(sync_client=True) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(
            f"a request to the Prefect server at {api} failed: {error}"
        ) from error


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error
