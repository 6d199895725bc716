"""The only place that builds what a run works with."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from contracts.errors import SandboxLost
from contracts.gate import OpenGate
from contracts.sandbox import Sandbox
from flows.gateway import running_gateway
from flows.request import RunRequest, check_agents, check_options, models
from flows.request import agents as agents_of
from flows.run import Opened, Tell, Workshop
from flows.run_memory import memory
from flows.settings import Settings, environment, load_settings
from nodes.agents.claude_code import claude_code
from nodes.agents.cli import GATEWAY_PORT
from nodes.agents.native import native_agent
from nodes.agents.pi import pi
from nodes.agents.runner import MakeAgent, agent_runner
from nodes.agents.types import Agent, AgentResult, AgentTask, OnLine
from nodes.execute import RunAgent
from nodes.text import Redact, redactor
from providers.chat import complete_for_run
from providers.client import Gateway
from providers.ledger import RunTerms
from providers.models import check_model
from providers.prices import is_priced
from providers.trajectory import Trajectory, record
from sandbox.container import DockerSandbox
from sandbox.egress import Egress, OnEvent
from sandbox.engine import Engine
from sandbox.flags import SandboxSpec
from sandbox.images import ensure_agents, ensure_base
from sandbox.installs import let_out
from sandbox.pool import take
from sandbox.reap import reap
from sandbox.sources import find_source

CLI_AGENTS: Mapping[str, Callable[[OpenGate, OnLine], Agent]] = {
    "claude-code": lambda open_gate, on_line: claude_code(open_gate, on_line=on_line),
    "pi": lambda open_gate, on_line: pi(open_gate, on_line=on_line),
}
"""Agents that are programs in the sandbox and ask their model through a gateway."""

AGENTS = ("native", *CLI_AGENTS)
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
        memory=memory(complete=complete_for_run()),
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
) -> Callable[[RunRequest, str, OnEvent], AbstractContextManager[Opened]]:
    wanted = settings.sandbox

    @contextmanager
    def open_sandbox(request: RunRequest, run_id: str, on_event: OnEvent) -> Iterator[Opened]:
        docker = engine()
        spec = spec_for(settings, docker, run_id, cli=bool(_cli_agents(request)))
        _sweep(docker, spec.owner)
        allow = (*wanted.egress, *request.blueprint.egress)
        with (
            Egress(allow, on_event, addresses=wanted.egress_addresses) as egress,
            take(docker, spec) or DockerSandbox.start(docker, spec) as sandbox,
        ):
            env = let_out(sandbox, egress, ca_bundle=wanted.ca_bundle) if allow else {}
            yield Opened(sandbox, env)

    return open_sandbox


def spec_for(settings: Settings, docker: Engine, run_id: str, *, cli: bool) -> SandboxSpec:
    """The sandbox that a run gets; with `cli` its image has the agents that are programs.

    Raises:
        ImageUnavailable, DockerUnavailable.
    """
    wanted = settings.sandbox
    ensure = ensure_agents if cli else ensure_base
    return SandboxSpec(
        image=wanted.image or ensure(docker, on_line=_ignore),
        owner=owner(settings),
        run_id=run_id,
        ttl_s=wanted.ttl_s,
        limits=wanted.limits,
    )


def _sweep(docker: Engine, ours: str) -> None:
    """Remove what dead runs left: 3 ms when that is nothing."""
    with suppress(SandboxLost):  # what will not go stays for `harness sandbox reap` to tell
        reap(docker, ours)


def owner(settings: Settings) -> str:
    """Who our containers belong to: one name for each HARNESS_HOME, made at first use."""
    path = settings.home / "owner"
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(token_hex(8))
    return path.read_text()


def _agents(
    redact: Redact,
) -> Callable[[RunRequest, str, Path, Tell], AbstractContextManager[RunAgent]]:
    @contextmanager
    def agents(request: RunRequest, run_id: str, folder: Path, tell: Tell) -> Iterator[RunAgent]:
        path = folder / "trajectory.jsonl"
        with Trajectory(path, redact=redact) as trajectory, ExitStack() as stack:
            complete = record(complete_for_run(), trajectory)
            made: dict[str, MakeAgent] = {
                "native": lambda on_line: native_agent(complete, on_line=on_line)
            }
            if _cli_agents(request):
                gateway = stack.enter_context(running_gateway())
                terms = RunTerms(run_id=run_id, trajectory=path, budget_usd=request.budget_usd)
                made |= _gated(gateway, stack.enter_context(gateway.run(terms)))
            yield agent_runner(
                made,
                budget_usd=request.budget_usd,
                tell=lambda node, line: tell(node, redact(line)),
            )

    return agents


def _cli_agents(request: RunRequest) -> set[str]:
    return agents_of(request) & CLI_AGENTS.keys()


def _gated(gateway: Gateway, open_gate: OpenGate) -> dict[str, MakeAgent]:
    """The agents in the sandbox; the first to work leads the sandbox's port to the gateway."""
    led: set[int] = set()

    def lead(agent: Agent) -> Agent:
        def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
            if not led:
                led.add(sandbox.forward(GATEWAY_PORT, gateway.connect))
            return agent(task, sandbox)

        return work

    def maker(make: Callable[[OpenGate, OnLine], Agent]) -> MakeAgent:
        return lambda on_line: lead(make(open_gate, on_line))

    return {name: maker(make) for name, make in CLI_AGENTS.items()}


def _ignore(_: str) -> None:
    pass
