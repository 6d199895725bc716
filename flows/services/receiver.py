"""The receiver of webhooks, as a kept process, and what it does with one."""

import json
import sys
from contextlib import suppress
from uuid import UUID

from contracts.errors import HarnessError, WebhookRefused
from flows.config.environment import config_file, environment
from flows.config.settings import Settings
from flows.runs.runs import is_known, read_entry
from flows.services import daemon, prefect_server
from flows.services.daemon import Daemon, Launch
from flows.services.deploy import missing_worker_warning, start_deployment
from flows.services.fingerprint import code_version, settings_fingerprint
from flows.services.health import is_healthy
from flows.services.ports import http_url
from flows.services.prefect_client import prefect_client
from flows.services.webhooks import Deliveries, check_signature, matching_start


def receiver_daemon(settings: Settings) -> Daemon:
    """The receiver, kept where `webhooks.secret` is set; other code or settings replace it."""

    def launch() -> Launch:
        host = settings.webhooks.host
        port = daemon.free_port(settings.webhooks.port, host)
        env = {
            **environment(),
            "HARNESS_HOME": str(settings.home),
            "HARNESS_CONFIG": str(config_file()),
            "HARNESS_WEBHOOKS__PORT": str(port),
        }
        url = http_url(host, port)
        return Launch((sys.executable, "-P", "-m", "app.web.webhooks"), env, url)

    return Daemon(
        name="webhooks",
        title="the receiver of webhooks",
        folder=settings.home / "webhooks",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=lambda: (
            f"{settings_fingerprint(settings.webhooks, settings.webhooks.secret)} {code_version()}"
        ),
    )


def receive(settings: Settings, body: bytes, *, event: str, signature: str, delivery: str) -> str:
    """Start what the delivery asks for; one line on what came of it.

    Raises:
        WebhookRefused: no secret is set, it does not fit, or the delivery was taken before.
        OptionInvalid: there is no such deployment, or its form refuses the parameters.
        Unavailable: no Prefect server answers. After either the delivery may come again.
    """
    secret = settings.webhooks.secret
    if secret is None:
        raise WebhookRefused("no secret is set: `webhooks.secret`")
    check_signature(secret.get_secret_value(), body, signature)
    try:
        start = matching_start(event, json.loads(body), settings.webhooks)
    except ValueError as error:
        raise WebhookRefused(f"the body is no JSON: {error}") from error
    if start is None:
        return "no rule fits: nothing is started"
    taken = Deliveries(settings.home / "webhooks" / "taken")
    note = taken.record(body, delivery, start.once, lambda run: _was_lost(settings, run))
    try:
        api = prefect_server.api_url(settings)
        warning = missing_worker_warning(api)
        run = start_deployment(api, start.deployment, start.parameters)
    except HarnessError:
        note.unlink()
        raise
    note.write_text(run)
    return f"started {start.deployment} as flow run {run}" + (f"; {warning}" if warning else "")


def _was_lost(settings: Settings, flow_run: str) -> bool:
    """Whether it was killed, or an outage ended it here before its nodes were done."""
    from prefect.exceptions import ObjectNotFound

    with (
        suppress(ValueError, ObjectNotFound),
        prefect_client(prefect_server.api_url(settings)) as client,
    ):
        state = client.read_flow_run(UUID(flow_run)).state
        if state is not None and state.is_failed():
            return _resumable(settings, flow_run[-8:])
        return state is not None and state.is_crashed()
    return False


def _resumable(settings: Settings, run_id: str) -> bool:
    known = is_known(settings.runs, run_id)
    return known and read_entry(settings.runs, run_id).resumable
