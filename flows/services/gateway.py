"""The gateway of this machine, as a kept process: one for all runs of a `HARNESS_HOME`.

It alone holds the keys of model providers and imports litellm. It is started by whoever
finds none and ends with `down`. When the program or the keys in the environment have changed,
the next run gets a new one; an old one that runs still use ends with the last of them.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
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
from nodes.text import secret_values
from providers.client import Gateway, OnWait
from providers.run_account import RunTerms
from sandbox.process_label import process_label

_ROOMS = tuple(
    ROOT / room for room in ("providers", "contracts", "nodes/agents", "policy", "flows")
)
"""The code that the gateway runs."""


class GatewayRun(NamedTuple):
    """A run that the gateway knows: where it is, and how agents get their tokens."""

    gateway: Gateway
    open_gate: OpenModelAccess


def up(settings: Settings) -> RunningDaemon:
    """The running gateway, started now if need be.

    Raises:
        ModelUnavailable: it ended or got stuck; the message names its log.
    """
    return daemon.up(gateway_daemon(settings))


def status(settings: Settings) -> RunningDaemon | None:
    """The gateway if its process lives."""
    return daemon.status(gateway_daemon(settings))


def down_if_idle(settings: Settings) -> None:
    """Stop the gateway unless a run is using it."""
    kept_one = gateway_daemon(settings)
    running = daemon.status(kept_one)
    if running is not None and kept_one.idle(running.url):
        daemon.down(kept_one)


def down(settings: Settings) -> bool:
    """Stop the gateway, and with it what any run asks; False when none was running."""
    return daemon.down(gateway_daemon(settings))


@contextmanager
def connect(settings: Settings) -> Iterator[Gateway]:
    """A client of the running gateway, which is started if need be.

    Raises:
        ModelUnavailable: as `up`.
    """
    running = up(settings)
    watch_loading = partial(_watch_loading, gateway_daemon(settings), running)
    client = Gateway(running.url, secret(settings), watch_loading=watch_loading)
    try:
        yield client
    finally:
        client.close()


def _watch_loading(gateway: Daemon, running: RunningDaemon) -> OnWait:
    waiting = daemon.waiting_for(gateway, running)

    def on_wait() -> None:
        if waiting.stuck():
            raise ModelUnavailable(
                f"{gateway.title} did not load its library of providers, and has done nothing for "
                f"{gateway.stuck_after_s:g} s: see {gateway.log}"
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
    """An open run; the gateway forgets it when the block ends, or this process.

    `said` and `spent_usd` are of a run that goes on: replies of each model, and money. With
    `replay` the replies of that trajectory are played, whatever model is named.

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
    """The gateway, as it is kept."""
    folder = _folder(settings)

    def launch() -> Launch:
        port = daemon.free_port()
        argv = (
            sys.executable,
            "-P",
            "-m",
            "flows.host.gateway_process",
            str(port),
            str(_secret_file(folder)),
            str(settings.home.absolute()),
        )
        return Launch(argv, environment(), f"http://127.0.0.1:{port}")

    return Daemon(
        name="gateway",
        title="the gateway to models",
        folder=folder,
        launch=launch,
        healthy=lambda url: _open_runs(url) is not None,
        version=lambda: fingerprint(secret(settings), _ROOMS, PROVIDER_VARIABLES),
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
    """What opens the gateway's host side; made at first use, for this user's eyes only."""
    return read_or_create(_secret_file(_folder(settings)), token_hex(32))


def _secret_file(folder: Path) -> Path:
    return folder / "secret"


def _folder(settings: Settings) -> Path:
    return settings.home / settings.gateway
