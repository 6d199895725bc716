"""The only place that builds what a run works with."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from flows.request import RunRequest, check_agents, check_options, models
from flows.run import Opened, Tell, Workshop
from flows.settings import Settings, environment, load_settings
from nodes.agents.native import native_agent
from nodes.agents.runner import agent_runner
from nodes.execute import RunAgent
from nodes.text import Redact, redactor
from providers.chat import complete_for_run
from providers.models import check_model
from providers.prices import is_priced
from providers.trajectory import Trajectory, record
from sandbox.container import DockerSandbox
from sandbox.egress import Egress, OnEvent
from sandbox.engine import Engine
from sandbox.flags import SandboxSpec
from sandbox.images import ensure_base
from sandbox.installs import let_out
from sandbox.sources import find_source

AGENTS = ("native",)
"""Agents that can be asked for."""

_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes an edit of the same size within one second for no edit, and runs the old code."""


def workshop(settings: Settings | None = None) -> Workshop:
    """Everything a run needs, from the settings. Connects to nothing yet.

    Raises:
        SettingsInvalid: the settings cannot be read.
    """
    chosen = settings or load_settings()
    redact = redactor(environment())
    return Workshop(
        runs=chosen.runs,
        repos=chosen.repos,
        env={**_NO_BYTECODE, **chosen.sandbox.env},
        redact=redact,
        default_agent=chosen.agent,
        default_model=chosen.model,
        default_budget_usd=chosen.budget_usd,
        check=_check,
        open_sandbox=_sandboxes(chosen),
        agents=_agents(redact),
    )


def engine() -> Engine:
    """The Docker engine that DOCKER_HOST or the default socket leads to."""
    return Engine()


def _check(request: RunRequest) -> tuple[str, ...]:
    """Bad input first, then what is not available: nothing is started for either."""
    check_options(request)
    check_agents(request, AGENTS)
    source = find_source(request.repo, request.ref)
    for model in sorted(models(request)):
        check_model(model, environment())
    with engine().client("run a sandbox"):
        pass
    return (*source.notices, *_unpriced(request))


def _unpriced(request: RunRequest) -> Iterator[str]:
    for model in sorted(models(request)) if request.budget_usd else ():
        if not is_priced(model):
            yield f"no price is known for {model!r}: a budget in dollars cannot stop it"


def _sandboxes(
    settings: Settings,
) -> Callable[[str, Sequence[str], OnEvent], AbstractContextManager[Opened]]:
    wanted = settings.sandbox

    @contextmanager
    def open_sandbox(run_id: str, asked: Sequence[str], on_event: OnEvent) -> Iterator[Opened]:
        docker = engine()
        spec = SandboxSpec(
            image=wanted.image or ensure_base(docker, on_line=_ignore),
            owner=owner(settings),
            run_id=run_id,
            ttl_s=wanted.ttl_s,
            limits=wanted.limits,
        )
        allow = (*wanted.egress, *asked)
        with (
            Egress(allow, on_event, addresses=wanted.egress_addresses) as egress,
            DockerSandbox.start(docker, spec) as sandbox,
        ):
            env = let_out(sandbox, egress, ca_bundle=wanted.ca_bundle) if allow else {}
            yield Opened(sandbox, env)

    return open_sandbox


def owner(settings: Settings) -> str:
    """Who our containers belong to: one name for each HARNESS_HOME, made at first use."""
    path = settings.home / "owner"
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(token_hex(8))
    return path.read_text()


def _agents(redact: Redact) -> Callable[[RunRequest, Path, Tell], AbstractContextManager[RunAgent]]:
    @contextmanager
    def agents(request: RunRequest, folder: Path, tell: Tell) -> Iterator[RunAgent]:
        with Trajectory(folder / "trajectory.jsonl", redact=redact) as trajectory:
            complete = record(complete_for_run(), trajectory)
            yield agent_runner(
                {"native": lambda on_line: native_agent(complete, on_line=on_line)},
                budget_usd=request.budget_usd,
                tell=lambda node, line: tell(node, redact(line)),
            )

    return agents


def _ignore(_: str) -> None:
    pass
