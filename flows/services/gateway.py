"""The daemon of the gateway to models: one process for all runs of a `HARNESS_HOME`.

Only the gateway holds the keys of model providers and imports litellm. The first run starts it.
When its code or the keys in the environment change, the next run gets a new gateway; the old one
ends when no run uses it any more.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from contracts.errors import ModelUnavailable
from contracts.model_access import OpenModelAccess
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.runs.home import read_or_create
from flows.services import daemon
from flows.services.daemon import Daemon, Launch, RunningDaemon
from flows.services.fingerprint import PROVIDER_VARIABLES, ROOT, fingerprint
from flows.services.ports import free_port
from nodes.text import secret_values
from providers.client import Gateway, OnWait
from providers.run_account import RunTerms
from sandbox.process_label import process_label

_PACKAGES = tuple(
    ROOT / package for package in ("providers", "contracts", "nodes/agents", "policy", "flows")
)
"""The code that the gateway executes."""

_LOADING_TIMEOUT_S = 600.0
"""Loading litellm takes 3 s on an idle core, minutes on an overloaded machine."""


class GatewayRun(NamedTuple):
    """A run that is open in the gateway: a client, and how agents get their tokens."""

    gateway: Gateway
    open_gate: OpenModelAccess


def up(settings: Settings) -> RunningDaemon:
    """Return the running gateway; start it if needed.

    Raises:
        ModelUnavailable: it ended or did not answer; the message names its log.
    """
    return daemon.up(gateway_daemon(settings))


def status(settings: Settings) -> RunningDaemon | None:
    """Return the gateway if its process is alive."""
    return daemon.status(gateway_daemon(settings))


def down_if_idle(settings: Settings) -> None:
    """Stop the gateway unless a run is using it."""
    gateway = gateway_daemon(settings)
    running = daemon.status(gateway)
    if running is not None and gateway.idle(running.url):
        daemon.down(gateway)


def down(settings: Settings) -> bool:
    """Stop the gateway, also while runs use it; False when none was running."""
    return daemon.down(gateway_daemon(settings))


@contextmanager
def connect(settings: Settings) -> Iterator[Gateway]:
    """Give a client of the running gateway, which is started if needed.

    Raises:
        ModelUnavailable: as `up`.
    """
    running = up(settings)
    watch_loading = partial(_limit_loading, gateway_daemon(settings))
    client = Gateway(running.url, secret(settings), watch_loading=watch_loading)
    try:
        yield client
    finally:
        client.close()


def _limit_loading(gateway: Daemon) -> OnWait:
    deadline = monotonic() + _LOADING_TIMEOUT_S

    def on_wait() -> None:
        if monotonic() > deadline:
            raise ModelUnavailable(
                f"{gateway.title} did not load litellm within {_LOADING_TIMEOUT_S:g} s: "
                f"see {gateway.log}"
            )

    return on_wait


@contextmanager
def open_gateway_run(
    settings: Settings,
    run_id: str,
    trajectory: Path,
    *,
    budget_usd: float | None = None,
    reply_counts: Mapping[str, int] = MappingProxyType({}),
    spent_usd: float = 0.0,
    replay: Path | None = None,
) -> Iterator[GatewayRun]:
    """Open a run in the gateway; it is closed when the block or this process ends.

    A resumed run gives the number of replies of each model and the money spent so far. With
    `replay`, the replies of that trajectory are returned whatever model is requested.

    Raises:
        ModelUnavailable: the gateway does not start or does not answer.
    """
    terms = RunTerms(
        run_id=run_id,
        trajectory=trajectory,
        budget_usd=budget_usd,
        ttl_s=settings.sandbox.ttl_s,
        prices=settings.prices,
        replies_given=reply_counts,
        spent_usd=spent_usd,
        replay=replay,
        secrets=secret_values(environment()),
        process=process_label(os.getpid()),
    )
    with connect(settings) as client, client.run(terms) as open_gate:
        yield GatewayRun(client, open_gate)


def gateway_daemon(settings: Settings) -> Daemon:
    """The daemon of the gateway of these settings."""
    folder = settings.home / settings.gateway

    def launch() -> Launch:
        port = free_port()
        argv = (
            sys.executable,
            "-P",
            "-m",
            "flows.host.gateway_process",
            str(port),
            str(_secret_file(settings)),
            str(settings.home.absolute()),
        )
        return Launch(argv, environment(), f"http://127.0.0.1:{port}")

    return Daemon(
        name="gateway",
        title="the gateway to models",
        folder=folder,
        launch=launch,
        healthy=lambda url: _open_runs(url) is not None,
        version=lambda: fingerprint(secret(settings), _PACKAGES, PROVIDER_VARIABLES),
        idle=lambda url: _open_runs(url) == 0,
        drains=True,
        unavailable=ModelUnavailable,
    )


def _open_runs(url: str) -> int | None:
    client = Gateway(url)
    try:
        return client.open_runs()
    finally:
        client.close()


def secret(settings: Settings) -> str:
    """Return the secret of the gateway's host side; created at first use, readable by this user."""
    return read_or_create(_secret_file(settings), token_hex(32))


def _secret_file(settings: Settings) -> Path:
    return settings.home / settings.gateway / "secret"
