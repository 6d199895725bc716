"""The gateway to models: its daemon, runs that are open in it, and calls of Harness itself.

One process serves all runs of a `HARNESS_HOME`. Only the gateway holds the keys of model providers
and imports litellm. The first run starts it. When its code or the keys in the environment change,
the next run gets a new gateway; the old one ends when no run uses it any more.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from contracts.chat import ChatRequest, Complete, Embed, Reply
from contracts.errors import BudgetExceeded, ModelUnavailable
from contracts.model_access import (
    BUDGET_EXCEEDED,
    INTERNAL_AGENT,
    ModelAccess,
    OpenModelAccess,
    TokenSpec,
)
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.runs.home import read_or_create
from flows.services.daemon import PROVIDER_VARIABLES, Daemon, Launch, keys_version
from flows.services.local_http import free_port
from nodes.text import secret_values
from providers.client import Gateway
from providers.embed import EmbeddingRequest
from providers.gateway_api import RunTerms
from sandbox.process_label import process_label


class GatewayRun(NamedTuple):
    """A run that is open in the gateway: a client, and how agents get their tokens."""

    gateway: Gateway
    open_gate: OpenModelAccess


def gateway_daemon(settings: Settings) -> Daemon:
    """The daemon of the gateway of these settings."""

    def launch() -> Launch:
        port = free_port()
        secret_file, home = str(_secret_file(settings)), str(settings.home.absolute())
        program = (sys.executable, "-P", "-m", "flows.host.gateway_process")
        argv = (*program, str(port), secret_file, home)
        return Launch(argv, environment(), f"http://127.0.0.1:{port}")

    return Daemon(
        name="gateway",
        title="the gateway to models",
        folder=settings.home / settings.gateway,
        launch=launch,
        healthy=lambda url: _open_runs(url) is not None,
        version=lambda: _version(settings),
        idle=lambda url: _open_runs(url) == 0,
        drains=True,
        report_after_s=3.0,
        unavailable=ModelUnavailable,
    )


def _version(settings: Settings) -> str:
    """Return a hash of the code, the keys, and the agents whose calls the gateway guards."""
    agents = sha256(repr(sorted(settings.agents.items())).encode()).hexdigest()
    return f"{keys_version(secret(settings), PROVIDER_VARIABLES)} {agents}"


def down_if_idle(settings: Settings) -> None:
    """Stop the gateway unless a run is using it."""
    gateway = gateway_daemon(settings)
    running = gateway.status()
    if running is not None and gateway.idle(running.url):
        gateway.down()


def secret(settings: Settings) -> str:
    """Return the secret of the gateway's host side; created at first use, readable by this user."""
    return read_or_create(_secret_file(settings), token_hex(32))


def connect(settings: Settings) -> "closing[Gateway]":
    """Return a client of the gateway, which is started if needed; the block's end closes it.

    Raises:
        ModelUnavailable: it ended or did not answer; the message names its log.
    """
    running = gateway_daemon(settings).up()
    return closing(Gateway(running.url, secret(settings), say=_say))


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


@contextmanager
def complete_through_gateway(
    settings: Settings, *, purpose: str, budget_usd: float | None = None
) -> Iterator[Complete]:
    """Give a `Complete` that calls models through the gateway, until the block ends.

        with complete_through_gateway(settings, purpose="plan", budget_usd=0.5) as complete:
            reply = complete(ChatRequest(model=settings.model, messages=[…]))

    Any model may be called; scripted ones keep their position within the block. The calls are
    recorded under the name `purpose`, such as "plan" or "curate", in a file of their own in the
    folder `calls` of the home. The first call starts the gateway. All calls together may spend
    `budget_usd`; the last reply may exceed it. The function is safe for threads.

    Raises (when called):
        BudgetExceeded: a `ModelUnavailable`; the message says what was spent.
        ModelUnavailable: the gateway or the model does not answer.
        OptionInvalid: the file of a scripted model is not a script.
    """
    run_id = f"{purpose}-{token_hex(4)}"
    path = _calls_file(settings, "%Y%m%d-%H%M%S", run_id)
    with ExitStack() as stack:
        gates: dict[str, ModelAccess] = {}
        runs: list[OpenModelAccess] = []
        opening = Lock()

        def gate(model: str) -> ModelAccess:
            with opening:
                if not runs:
                    opened = open_gateway_run(settings, run_id, path, budget_usd=budget_usd)
                    runs.append(stack.enter_context(opened).open_gate)
                if model not in gates:
                    terms = TokenSpec(node=purpose, agent=INTERNAL_AGENT, model=model)
                    gates[model] = stack.enter_context(runs[0](terms))
                return gates[model]

        def complete(request: ChatRequest) -> Reply:
            reply = gate(request.model).complete(request)
            if reply.stop_reason == BUDGET_EXCEEDED:
                raise BudgetExceeded(reply.message.content)
            return reply

        yield complete


def embed_through_gateway(
    settings: Settings,
    model: str,
    *,
    dimensions: int | None = None,
    api_key: str | None = None,
    api_base: str | None = None,
) -> Embed:
    """Return an `Embed` that calls the model through the gateway; the first call starts it.

    Calls are recorded in the folder `calls` of the home, one file a day.

    Raises (when called):
        ModelUnavailable: the gateway or the model does not answer.
    """

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        request = EmbeddingRequest(
            input=list(texts),
            dimensions=dimensions,
            harness_api_key=api_key,
            harness_api_base=api_base,
        )
        path = _calls_file(settings, "%Y%m%d", "embed")
        terms = TokenSpec(node="embed", agent=INTERNAL_AGENT, model=model)
        # A run for each call: the pages live for days, and survive a restart of the gateway.
        with (
            open_gateway_run(settings, f"embed-{token_hex(4)}", path) as run,
            run.open_gate(terms) as gate,
        ):
            return run.gateway.embed(gate.token, request)

    return embed


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _open_runs(url: str) -> int | None:
    with closing(Gateway(url)) as client:
        return client.open_runs()


def _secret_file(settings: Settings) -> Path:
    return settings.home / settings.gateway / "secret"


def _calls_file(settings: Settings, time_format: str, name: str) -> Path:
    return settings.home / "calls" / f"{datetime.now(UTC).strftime(time_format)}-{name}.jsonl"
