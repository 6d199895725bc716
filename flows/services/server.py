"""A Prefect server asked as Prefect's own client asks it, with one error for what goes wrong."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from contracts.errors import PrefectUnavailable

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@contextmanager
def speaking_to(api: str, *, home: Path | None = None) -> Iterator[None]:
    """Prefect's settings with this server, and without Prefect's own heartbeat, in the block.

    With a `home` each client that Prefect makes in the block spares 20 ms; a run makes five.
    """
    from prefect.context import SettingsContext, get_settings_context
    from prefect.settings import PREFECT_API_URL, temporary_settings

    # Much follows from the address, so Prefect then reads all settings anew, which takes 45 ms.
    known = PREFECT_API_URL.value() == api
    with nullcontext() if known else temporary_settings({PREFECT_API_URL: api}):
        profile, settings = get_settings_context().profile, get_settings_context().settings
        flows = settings.flows.model_copy(update={"heartbeat_frequency": None})
        meant = settings.model_copy(update={"flows": flows})
        if home is not None and api.startswith("http:"):
            spared = meant.api.model_copy(update={"ssl_cert_file": one_certificate(home)})
            meant = meant.model_copy(update={"api": spared})
        with SettingsContext(profile=profile, settings=meant):
            yield


def one_certificate(home: Path) -> str:
    """A file with one certificate, for clients of a server without TLS: to read all takes 20 ms."""
    import certifi

    one = home / "prefect" / "one-certificate.pem"
    if not one.exists():
        one.parent.mkdir(parents=True, exist_ok=True)
        end = "-----END CERTIFICATE-----\n"
        # Many runs may begin at once: each writes one of its own.
        with NamedTemporaryFile("w", dir=one.parent, delete=False) as whole:
            whole.write(certifi.contents().partition(end)[0] + end)
        Path(whole.name).replace(one)
    return str(one)


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
        with speaking_to(api), get_client(sync_client=True, httpx_settings=how) as client:
            _check_version(client, api)
            yield client
    except HTTPError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} failed us: {error}") from error


def _check_version(client: "SyncPrefectClient", api: str) -> None:
    try:
        client.raise_for_api_version_mismatch()
    except RuntimeError as error:
        raise PrefectUnavailable(f"the Prefect server at {api} cannot be used: {error}") from error
