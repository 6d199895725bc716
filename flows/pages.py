"""The web pages of this machine, as a kept process."""

import socket
import sys
from urllib.parse import urlsplit

from flows import kept
from flows.kept import Kept, Launch
from flows.settings import Settings, environment


def pages(settings: Settings) -> Kept:
    """The pages that `harness ui` serves; where their port is taken, another free one."""
    host = settings.ui.host

    def launch() -> Launch:
        port = kept.free_port(settings.ui.port)
        env = {**environment(), "HARNESS_UI__PORT": str(port)}
        return Launch((sys.executable, "-m", "app.web.serve"), env, f"http://{host}:{port}")

    return Kept(
        name="pages",
        title="the web pages",
        folder=settings.home / "pages",
        launch=launch,
        healthy=_answers,
    )


def _answers(url: str) -> bool:
    """Whether somebody listens; what they say may want a token."""
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=5.0):
            return True
    except OSError:
        return False
