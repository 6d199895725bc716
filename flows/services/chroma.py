"""The Chroma server of this machine, kept where `memory.chroma_url` is an address of its own."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from flows.config.environment import environment
from flows.config.settings import LOOPBACK_HOSTS, Settings
from flows.services.daemon import Daemon, Launch
from flows.services.health import is_healthy


def is_local_address(url: str | None) -> bool:
    """Whether this `memory.chroma_url` is an address that we serve, not somebody else's."""
    place = urlsplit(url or "")
    return place.hostname in LOOPBACK_HOSTS and place.port is not None


def chroma_daemon(settings: Settings, url: str | None) -> Daemon:
    """The server of this machine's index, as it is kept."""
    program = str(Path(sys.executable).with_name("chroma"))
    folder = settings.home / "chroma"

    def launch() -> Launch:
        where = ("--host", "127.0.0.1", "--port", str(urlsplit(url or "").port))
        return Launch((program, "run", *where, "--path", str(folder)), environment(), str(url))

    return Daemon(
        name="chroma",
        title="the Chroma server",
        folder=folder,
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/api/v2/heartbeat"),
    )
