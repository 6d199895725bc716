"""The pages for people, kept as a process; `app/web/serve.py` is what runs in it."""

import secrets
import sys
from functools import partial

from flows.config.environment import config_file, environment
from flows.config.settings import LOOPBACK_HOSTS, Settings
from flows.services import daemon
from flows.services.daemon import Daemon, Launch
from flows.services.fingerprint import code_version, settings_fingerprint
from flows.services.health import is_healthy
from flows.services.ports import http_url


def pages_daemon(settings: Settings) -> Daemon:
    """The pages, as they are kept; other code or settings of theirs replace them."""

    def launch() -> Launch:
        host = settings.ui.host
        port = daemon.free_port(settings.ui.port, host)
        env = {**environment(), "HARNESS_HOME": str(settings.home), "HARNESS_UI__PORT": str(port)}
        env["HARNESS_CONFIG"] = str(config_file())
        url = f"{http_url(host, port)}/"
        if settings.ui.token is None and host not in LOOPBACK_HOSTS:
            env["HARNESS_UI__TOKEN"] = secrets.token_urlsafe(32)
            url += f"?token={env['HARNESS_UI__TOKEN']}"
        return Launch((sys.executable, "-P", "-m", "app.web.serve"), env, url)

    return Daemon(
        name="pages",
        title="the pages",
        folder=settings.home / "pages",
        launch=launch,
        healthy=partial(is_healthy, accept_refusal=True),
        version=lambda: f"{settings_fingerprint(settings.ui, settings.ui.token)} {code_version()}",
    )


def pages_url(settings: Settings) -> str | None:
    """Where the pages are, without their token; None when they are not up."""
    running = daemon.status(pages_daemon(settings))
    return running.url.partition("?")[0] if running is not None else None
