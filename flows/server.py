"""A Prefect server asked as Prefect's own client asks it, with one error for what goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contracts.errors import PrefectUnavailable

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@contextmanager
def asking(api: str) -> "Iterator[SyncPrefectClient]":
    """A client of the server at `api`, until the block ends.

    Raises:
        PrefectUnavailable: it does not answer, refuses us, or is of another version.
    """
    from httpx import HTTPError
    from prefect import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    try:
        with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} failed us: {error}") from error


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error
