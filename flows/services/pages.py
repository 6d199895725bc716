"""The pages for people, kept as a process; `app/web/serve.py` is what runs in it."""

import secrets
import sys
from functools import partial

from flows.config.environment import config_file, environment
from flows.config.settings import LOOPBACK, Settings
from flows.services import daemon
from flows.services.daemon import Kept, Launch
from flows.services.fingerprint import code, told_apart
from flows.services.health import answers
from flows.services.ports import address


def pages(settings: Settings) -> Kept:
    """The pages, as they are kept; other code or settings of theirs replace them."""

    def launch() -> Launch:
        host = settings.ui.host
        port = daemon.free_port(settings.ui.port, host)
        env = {**environment(), "HARNESS_HOME": str(settings.home), "HARNESS_UI__PORT": str(port)}
        env["HARNESS_CONFIG"] = str(config_file())
        url = f"{address(host, port)}/"
        if settings.ui.token is None and host not in LOOPBACK:
            env["HARNESS_UI__TOKEN"] = secrets.token_urlsafe(32)
            url += f"?token={env['HARNESS_UI__TOKEN']}"
        return Launch((sys.executable, "-P", "-m", "app.web.serve"), env, url)

    return Kept(
        name="pages",
        title="the pages",
        folder=settings.home / "pages",
        launch=launch,
        healthy=partial(answers, or_refuses=True),
        version=lambda: f"{told_apart(settings.ui, settings.ui.token)} {code()}",
    )


def pages_url(settings: Settings) -> str | None:
    """Where the pages are, without their token; None when they are not up."""
    running = daemon.status(pages(settings))
    return running.url.partition("?")[0] if running is not None else None
