"""The Chroma server of this machine, kept where `memory.chroma_url` is an address of its own."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from flows.kept import Kept, Launch
from flows.settings import Settings, environment

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def chroma(settings: Settings, url: str | None) -> Kept | None:
    """The server to keep for this `memory.chroma_url`; None when it is none or somebody else's."""
    place = urlsplit(url or "")
    if place.hostname not in _LOOPBACK or place.port is None:
        return None
    program = str(Path(sys.executable).with_name("chroma"))
    where = ("--host", "127.0.0.1", "--port", str(place.port))
    kept_in = ("--path", str(settings.home / "chroma"))
    return Kept(
        name="chroma",
        title="the Chroma server",
        folder=settings.home / "chroma",
        launch=lambda: Launch((program, "run", *where, *kept_in), environment(), str(url)),
        healthy=answers,
    )


def answers(url: str) -> bool:
    """Whether a Chroma server answers there."""
    import httpx

    try:
        return httpx.get(f"{url}/api/v2/heartbeat", timeout=5.0).is_success
    except httpx.HTTPError:
        return False
