"""Serves the pages until interrupted; `python -m app.web.serve` is what `harness up` keeps."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from contracts.errors import SettingsInvalid
from flows.config.settings import LOOPBACK_HOSTS, UiSettings, load_settings
from flows.services.ports import http_url, listen_on


class PagesAddress(NamedTuple):
    """Where pages are served, and the token that they want there; None on this machine only."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The address to open."""
        token = f"?token={self.token}" if self.token else ""
        return f"{http_url(self.host, self.port)}/{token}"


def pages_address(wanted: UiSettings) -> PagesAddress:
    """Where to serve. Other than loopback wants a token; one is made when none is given."""
    token = wanted.token.get_secret_value() if wanted.token else None
    if wanted.host not in LOOPBACK_HOSTS:
        token = token or secrets.token_urlsafe(32)
    return PagesAddress(wanted.host, wanted.port, token)


def serve(where: PagesAddress, ready: Callable[[PagesAddress], None]) -> None:
    """Serve until interrupted; `ready` is told the place once it answers (port 0: any free one).

    Raises:
        SettingsInvalid: the address cannot be used.
    """
    import uvicorn

    from app.web.site import create_app

    try:
        listening = listen_on(where.host, where.port)
    except OSError as error:
        raise SettingsInvalid(
            f"pages cannot be served at {where.host!r}:{where.port}: {error.strerror}; "
            "choose another with --port or [ui] in harness.toml"
        ) from error
    with listening:
        ready(where._replace(port=listening.getsockname()[1]))
        config = uvicorn.Config(
            create_app(token=where.token),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,  # whoever follows events would hold it up for ever
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    serve(pages_address(load_settings().ui), ready=lambda _: None)
