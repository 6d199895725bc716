"""A Prefect server asked as Prefect's own client asks it, with one error for what goes wrong."""

import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

    # Loading certificates takes 20 ms, and a server without TLS has none.
    how = None if api.startswith("https:") else {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}
    try:
        with _meant(api), get_client(sync_client=True, httpx_settings=how) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} failed us: {error}") from error


def _meant(api: str) -> AbstractContextManager[object]:
    """Prefect's settings with this server; making them anew takes 50 ms."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    known = PREFECT_API_URL.value() == api
    return nullcontext() if known else temporary_settings({PREFECT_API_URL: api})


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error
