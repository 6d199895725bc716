"""Builds the dependencies of runs. No other file constructs clients."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from blueprints.types import Blueprint
from contracts.chat import ChatRequest, Complete, Reply
from contracts.errors import SandboxLost, Unavailable
from contracts.model_access import GuardBounds, ModelAccess, TokenSpec
from contracts.sandbox import Sandbox
from flows.audit.event_log import append_when_needed, event_log, open_approvals, run_page
from flows.config.environment import environment
from flows.config.memory import load_memory_settings
from flows.config.policy import load_policy_settings
from flows.config.settings import Settings, load_settings
from flows.execution.base_check import inspected_base
from flows.execution.dependencies import RunDependencies, Tell
from flows.execution.host_tools import host_tools
from flows.execution.installs import RunInstalls
from flows.execution.mcp import run_server
from flows.execution.sandboxes import environment_finder, run_sandboxes, snapshot_remover
from flows.execution.token_budget import TokenBudget, token_budget
from flows.execution.toolchain import toolchain_preparer
from flows.forge.pulls import forge_finder
from flows.recall.notes import run_notes
from flows.recall.playbooks import OpenTools, run_memory
from flows.runs.checkpoint import UsedBudget
from flows.runs.home import TRAJECTORY, home_owner
from flows.runs.request import CONFIGURED, ResolvedRequest, RunRequest
from flows.runs.request_checks import check_request
from flows.runs.trajectory_events import node_rules, secrets_read
from flows.services.notifications import send_notification
from nodes.agents.runner import MakeAgent, RunBudget, agent_runner
from nodes.agents.table import agent_rows
from nodes.agents.types import (
    Agent,
    AgentResult,
    AgentTask,
    ConversationStore,
    OnLine,
    redacted_store,
)
from nodes.execute import RunAgent
from nodes.projects.python import NO_BYTECODE
from nodes.text import Redact, make_redactor
from providers.models import check_key
from sandbox.engine import DockerEngine
from sandbox.environments import EnvironmentStore
from sandbox.repos import FindSource
from sandbox.sources import find_source

if TYPE_CHECKING:
    from flows.services.gateway import GatewayRun
    from policy.log.event_log import EventLog


def build_dependencies(
    settings: Settings | None = None, *, replay: Path | None = None, wait_s: float | None = None
) -> RunDependencies:
    """Build the dependencies of runs from the settings, without connecting to anything.

    With `replay`, agents get the replies of that trajectory: no model is called, no person is
    asked, and memory is neither read nor written. `wait_s` overrides the setting of how long agents
    wait for a decision.

    Raises:
        SettingsInvalid: the settings cannot be read.
    """
    chosen = settings or load_settings()
    redact = make_redactor(environment())
    remembered = run_memory(complete=_reflecting(chosen))
    bounds = _bounds(chosen, ask=replay is None, wait_s=wait_s)
    docker, find = cache(docker_engine), cache(find_source)
    store = environment_store(chosen)
    return RunDependencies(
        runs=chosen.runs,
        repos=chosen.repos,
        env={**NO_BYTECODE, **chosen.sandbox.env},
        redact=redact,
        resolve_request=lambda request, definition: resolve_request(request, definition, chosen),
        check_request=lambda request: _check(request, chosen, docker(), find),
        find_source=find,
        inspect_base=lambda request, base: inspected_base(
            base, request, load_policy_settings(), chosen.sandbox.egress
        ),
        prepare_toolchain=toolchain_preparer(chosen, docker),
        open_sandbox=run_sandboxes(chosen, docker),
        find_start=environment_finder(chosen, store, docker),
        remove_environment=store.remove,
        open_installs=partial(RunInstalls, chosen, store),
        snapshot_ttl_s=max(chosen.sandbox.resume_within_s, load_policy_settings().approval_ttl_s),
        remove_snapshots=snapshot_remover(chosen, docker),
        memory=remembered,
        open_notes=lambda: run_notes(load_memory_settings()),
        open_agents=_agents(
            chosen, redact, _no_tools if replay else remembered.tools, replay, bounds, docker
        ),
        token_budget=_token_budget(chosen) if replay is None else lambda _: TokenBudget(None),
        bounds=bounds,
        open_approvals=lambda: open_approvals(chosen.home),
        open_event_log=lambda: append_when_needed(chosen.home, sandbox_owner(chosen)),
        run_view=lambda run_id: run_page(chosen.home, sandbox_owner(chosen), run_id),
        find_forge=forge_finder(chosen.forges, environment()),
        send_notification=send_notification,
    )


def open_event_log() -> AbstractContextManager["EventLog"]:
    """Open the event log of this home.

    Raises:
        SettingsInvalid: the settings cannot be read.
    """
    settings = load_settings()
    return event_log(settings.home, sandbox_owner(settings))


def resolve_request(
    request: RunRequest, definition: Blueprint, settings: Settings
) -> ResolvedRequest:
    """Return the request with its blueprint, and with agent, model and budget if it has none."""
    fields = dict(request)
    if request.agent == CONFIGURED:
        fields["agent"] = settings.agent
    fields["model"] = request.model or settings.model
    fields["budget_usd"] = request.budget_usd or settings.budget_usd
    return ResolvedRequest.of(**{**fields, "definition": definition})


def environment_store(settings: Settings) -> EnvironmentStore:
    """Return the kept environments of this home."""
    return EnvironmentStore(settings.home / "environments", docker_engine)


def docker_engine() -> DockerEngine:
    """Return the Docker engine at DOCKER_HOST or the default socket."""
    return DockerEngine()


def _check(
    request: ResolvedRequest, settings: Settings, docker: DockerEngine, find: FindSource
) -> tuple[str, ...]:
    """Check the input first, then the services: nothing is started for a bad request."""
    check_request(request, known_agents=agent_rows(), known_servers=settings.mcp)
    source = find(request.repo, request.ref or None, request.review_base)
    for model in sorted(request.models):
        check_key(model, environment())
    with docker.client("run a sandbox"):
        pass
    if request.models:
        _check_models(request, settings)
        _token_budget(settings)(request)
    return source.notices


def _token_budget(settings: Settings) -> Callable[[ResolvedRequest], TokenBudget]:
    def find_unpriced(models: Collection[str]) -> list[str]:
        from flows.services.gateway import connect  # imports the HTTP client

        with connect(settings) as client:
            return [model for model in models if not client.check_model(model)]

    return lambda request: token_budget(request, settings, find_unpriced)


def _check_models(request: ResolvedRequest, settings: Settings) -> None:
    """Ask the gateway whether it can call the models, also those whose price is known."""
    from flows.services.gateway import connect  # imports the HTTP client

    with connect(settings) as client:
        for model in sorted(request.models):
            client.check_model(model)


def _reflecting(settings: Settings) -> Complete:
    """Return a function that calls a model through the gateway, which the first call starts."""

    def complete(request: ChatRequest) -> Reply:
        from flows.services.gateway import complete_through_gateway  # imports the HTTP client

        with complete_through_gateway(settings, purpose="reflect") as ask:
            return ask(request)

    return complete


def sandbox_owner(settings: Settings) -> str:
    """Return the owner name of this home's containers; created at first use."""
    return home_owner(settings.home)


def _agents(
    settings: Settings,
    redact: Redact,
    tools: OpenTools,
    replay: Path | None,
    bounds: Callable[[ResolvedRequest], GuardBounds | None],
    docker: Callable[[], DockerEngine],
) -> Callable[
    [ResolvedRequest, str, Path, Tell, UsedBudget, ConversationStore],
    AbstractContextManager[RunAgent],
]:
    @contextmanager
    def agents(
        request: ResolvedRequest,
        run_id: str,
        folder: Path,
        tell: Tell,
        used: UsedBudget,
        talks: ConversationStore,
    ) -> Iterator[RunAgent]:
        with ExitStack() as stack:
            made: Mapping[str, MakeAgent] = {}
            tokens = None if replay else _token_budget(settings)(request).tokens
            if request.agents:
                from flows.services.gateway import open_gateway_run  # imports the HTTP client

                opened = open_gateway_run(
                    settings,
                    run_id,
                    folder / TRAJECTORY,
                    budget_usd=request.budget_usd,
                    reply_counts=used.replies,
                    spent_usd=used.cost_usd,
                    replay=replay,
                )
                made = _agents_behind_gateway(
                    stack.enter_context(opened), bounds(request), settings.context_tokens
                )
            playbooks = stack.enter_context(tools(run_id))
            servers = partial(run_server, settings, docker, request, run_id, folder, tell)
            toolbox = stack.enter_context(host_tools(playbooks, servers))
            yield agent_runner(
                made,
                budget=RunBudget(request.budget_usd, tokens, used.cost_usd, used.tokens),
                on_line=lambda node, line: tell(node, redact(line)),
                mcp=request.mcp_patterns,
                toolbox=toolbox if replay is None else lambda _: None,
                conversations=redacted_store(talks, redact),
                secret_files_read=lambda node: secrets_read(
                    folder / TRAJECTORY, node, node_rules(request, bounds(request))
                ),
            )

    return agents


def _agents_behind_gateway(
    run: "GatewayRun", bounds: GuardBounds | None, context_tokens: int | None
) -> Mapping[str, MakeAgent]:
    """Return all agents by name. The first that works in a sandbox forwards its port to the
    gateway."""
    # Importing the agents takes 70 ms, which commands that start no agent need not pay.
    from nodes.agents.claude_code import claude_code
    from nodes.agents.cli import GATEWAY_PORT
    from nodes.agents.native import gateway_native_agent
    from nodes.agents.pi import pi

    def open_gate(terms: TokenSpec) -> AbstractContextManager[ModelAccess]:
        return run.open_gate(replace(terms, bounds=bounds))

    def forwarding(agent: Agent) -> Agent:
        def work(task: AgentTask, sandbox: Sandbox) -> AgentResult:
            try:
                sandbox.forward(GATEWAY_PORT, run.gateway.connect)
            except SandboxLost:
                raise
            except Unavailable:
                pass  # the port is forwarded already: a forward outlives a command in the sandbox
            return agent(task, sandbox)

        return work

    def acp(name: str) -> MakeAgent:
        def make(on_line: OnLine) -> Agent:
            from nodes.agents.acp import acp_agent  # imports ACP's SDK, which takes a second

            return forwarding(acp_agent(name, open_gate, on_line=on_line))

        return make

    return {
        "claude-code": lambda on_line: forwarding(claude_code(open_gate, on_line=on_line)),
        "pi": lambda on_line: forwarding(pi(open_gate, on_line=on_line)),
        "native": lambda on_line: gateway_native_agent(
            open_gate, context_tokens=context_tokens, on_line=on_line
        ),
        **{name: acp(name) for name, row in agent_rows().items() if row.command},
    }


def _no_tools(_: str) -> AbstractContextManager[Callable[[], None]]:
    return nullcontext(lambda: None)


def _bounds(
    settings: Settings, *, ask: bool, wait_s: float | None
) -> Callable[[ResolvedRequest], GuardBounds | None]:
    def bounds(request: ResolvedRequest) -> GuardBounds | None:
        found = load_policy_settings().bounds(request, settings.sandbox.egress, settings.mcp)
        if found is None:
            return None
        waits = found.wait_s if wait_s is None else wait_s
        return replace(found, ask=found.ask and ask, wait_s=waits)

    return bounds
