"""The daemon of the web pages, which runs `app/web/serve.py`."""

import secrets
import sys
from functools import partial

from flows.config.environment import config_file, environment
from flows.config.settings import LOOPBACK_HOSTS, Settings
from flows.services import daemon
from flows.services.daemon import Daemon, Launch
from flows.services.fingerprint import code_version, settings_fingerprint
from flows.services.ports import free_port, http_url, is_healthy


def pages_daemon(settings: Settings) -> Daemon:
    """The daemon; it is replaced when the code or the settings `ui` change."""

    def launch() -> Launch:
        host = settings.ui.host
        port = free_port(settings.ui.port, host)
        env = {
            **environment(),
            "HARNESS_HOME": str(settings.home),
            "HARNESS_CONFIG": str(config_file()),
            "HARNESS_UI__PORT": str(port),
        }
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
    """Return the URL of the pages without their token; None if they do not run."""
    running = daemon.status(pages_daemon(settings))
    return running.url.partition("?")[0] if running is not None else None
