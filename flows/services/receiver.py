"""The daemon that receives webhooks, and the handling of one delivery."""

import json
import sys
from contextlib import suppress
from uuid import UUID

from contracts.errors import HarnessError, WebhookRefused
from flows.config.environment import config_file, environment
from flows.config.settings import Settings
from flows.runs.runs import is_known, read_entry
from flows.services import prefect_server
from flows.services.daemon import Daemon, Launch
from flows.services.deploy import missing_worker_warning, start_deployment
from flows.services.fingerprint import code_version, settings_fingerprint
from flows.services.ports import free_port, http_url, is_healthy
from flows.services.prefect_client import prefect_client
from flows.services.webhooks import Deliveries, check_signature, matching_start


def receiver_daemon(settings: Settings) -> Daemon:
    """The daemon; it is replaced when the code or the settings `webhooks` change."""

    def launch() -> Launch:
        host = settings.webhooks.host
        port = free_port(settings.webhooks.port, host)
        env = {
            **environment(),
            "HARNESS_HOME": str(settings.home),
            "HARNESS_CONFIG": str(config_file()),
            "HARNESS_WEBHOOKS__PORT": str(port),
        }
        url = http_url(host, port)
        return Launch((sys.executable, "-P", "-m", "app.web.webhooks"), env, url)

    def version() -> str:
        webhooks = settings.webhooks
        return f"{settings_fingerprint(webhooks, webhooks.secret)} {code_version()}"

    return Daemon(
        name="webhooks",
        title="the receiver of webhooks",
        folder=settings.home / "webhooks",
        launch=launch,
        healthy=lambda url: is_healthy(f"{url}/health"),
        version=version,
    )


def receive(settings: Settings, body: bytes, *, event: str, signature: str, delivery: str) -> str:
    """Start the deployment that the delivery asks for; return one line about the outcome.

    Raises:
        WebhookRefused: no secret is set, the signature is wrong, or it was accepted before.
        OptionInvalid: there is no such deployment, or its form refuses the parameters.
        Unavailable: no Prefect server answers. After either, the delivery may be sent again.
    """
    secret = settings.webhooks.secret
    if secret is None:
        raise WebhookRefused("no secret is set: `webhooks.secret`")
    check_signature(secret.get_secret_value(), body, signature)
    try:
        start = matching_start(event, json.loads(body), settings.webhooks)
    except ValueError as error:
        raise WebhookRefused(f"the body is not JSON: {error}") from error
    if start is None:
        return "no rule matches: nothing is started"
    deliveries = Deliveries(settings.home / "webhooks" / "taken")
    record = deliveries.record(body, delivery, start.once, lambda run: _was_lost(settings, run))
    try:
        api = prefect_server.api_url(settings)
        warning = missing_worker_warning(api)
        run = start_deployment(api, start.deployment, start.parameters)
    except HarnessError:
        record.unlink()
        raise
    record.write_text(run)
    return f"started {start.deployment} as flow run {run}" + (f"; {warning}" if warning else "")


def _was_lost(settings: Settings, flow_run: str) -> bool:
    """Return True if the run was killed, or an outage ended it before its nodes were done."""
    from prefect.exceptions import ObjectNotFound

    api = prefect_server.api_url(settings)
    with suppress(ValueError, ObjectNotFound), prefect_client(api) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        if state is not None and state.is_failed():
            run_id = flow_run[-8:]
            known = is_known(settings.runs, run_id)
            return known and read_entry(settings.runs, run_id).resumable
        return state is not None and state.is_crashed()
    return False
