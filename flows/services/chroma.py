"""The daemon of the Chroma server, where `memory.chroma_url` is an address of this machine."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from flows.config.environment import environment
from flows.config.settings import LOOPBACK_HOSTS, Settings
from flows.services.daemon import Daemon, Launch
from flows.services.ports import is_healthy


def is_local_address(url: str | None) -> bool:
    """Return True if this `memory.chroma_url` is a loopback address with a port."""
    parts = urlsplit(url or "")
    return parts.hostname in LOOPBACK_HOSTS and parts.port is not None


def chroma_daemon(settings: Settings, url: str | None) -> Daemon:
    """The daemon that serves the index at `url`."""
    program = str(Path(sys.executable).with_name("chroma"))
    folder = settings.home / "chroma"

    def launch() -> Launch:
        address = ("--host", "127.0.0.1", "--port", str(urlsplit(url or "").port))
        return Launch((program, "run", *address, "--path", str(folder)), environment(), str(url))

    return Daemon(
        name="chroma",
        title="the Chroma server",
        folder=folder,
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/api/v2/heartbeat"),
    )
