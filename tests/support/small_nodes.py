"""Small nodes and agents, and one call that runs them."""

from collections.abc import Callable

from blueprints.dsl import agentic, blueprint, step, validate
from blueprints.engine import RunListener, execute_blueprint
from contracts.chat import Usage
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from nodes.commands import shell
from nodes.types import Agentic, Node, NodeFunction, Validate
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context

Agent = Callable[[Agentic, RunContext, Sandbox], NodeResult]


def works(output: str = "ok") -> NodeFunction:
    return lambda ctx, sandbox: NodeResult.success(output)


def fails(error: str = "boom") -> NodeFunction:
    return lambda ctx, sandbox: NodeResult.failure(error, "err")


def agent_done(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    return NodeResult.success("agent done")


def agent_writes(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
    sandbox.write_file("fixed", b"")
    used = Usage(input=10, output=5, cost_usd=0.25)
    return NodeResult(status="success", output=node.prompt(ctx), usage=used, turns=2)


def check(exec: NodeFunction, *, max_retries: int = 2) -> Validate:  # noqa: A002 - the word blueprints are written with
    fix = agentic("fix", "Fix", prompt=lambda ctx: f"fix: {ctx.results['check/test'].output}")
    return validate(
        "check", "Validate", steps=[step("test", exec)], on_failure=fix, max_retries=max_retries
    )


FIXED = shell("echo looking for the fix; test -e fixed")


def run(
    sandbox: ScriptedSandbox,
    *nodes: Node,
    agent: Agent = agent_done,
    watch: RunListener | None = None,
) -> RunReport:
    made = blueprint("test", "A test", nodes)
    ctx = context(sandbox, intent="test")
    return execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent, listener=watch)
