"""The loop over nodes: run in order, pass results on, stop at the first failure.

The engine does not know Prefect. A `WrapNode` function decides how a node is run: a plain call
here, a Prefect task in `flows/orchestration/tasks.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial, reduce
from time import monotonic

from blueprints.lanes import RunLane, SaveLaneWork, run_compete, run_parallel
from blueprints.report import build_report
from blueprints.types import Blueprint
from contracts.chat import Usage
from contracts.run import DecisionCounts, NodeResult, RunContext, RunReport
from contracts.sandbox import PersistentSandbox, SnapshotId
from nodes.execute import RunAgent, RunNode, execute_node, with_step_results
from nodes.node_errors import attribute_errors
from nodes.node_sandbox import NodeSandbox
from nodes.text import Redact, strip_control_characters, truncate_middle
from nodes.time_limit import DidNotReturn, call_in_time
from nodes.types import Agentic, Compete, Deterministic, Node, Parallel, Preflight, Validate

WrapNode = Callable[[Node, Callable[[], NodeResult]], NodeResult]
"""Call the function once, for example inside a Prefect task, and return its result."""


def _ignore(*_: object) -> None:
    pass


def call_directly(_: Node, execute: Callable[[], NodeResult]) -> NodeResult:
    """The default `WrapNode`: call the function."""
    return execute()


@dataclass(frozen=True, kw_only=True)
class RunListener:
    """Callbacks during a run. Steps and fixes of a validate node count as nodes."""

    on_node_start: Callable[[str], None] = _ignore
    on_node_complete: Callable[[str, NodeResult], None] = _ignore
    on_line: Callable[[str, str], None] = _ignore
    """Gets a node's name and one line of output of its commands or its agent."""


@dataclass(frozen=True, kw_only=True)
class LaneHooks:
    """Callbacks for parallel and compete nodes."""

    wrap: Callable[[str, PersistentSandbox], WrapNode] = lambda _, __: call_directly
    """Return the `WrapNode` of a lane, from the name of a competing agent and its fork of the
    sandbox; for a parallel node the name is empty and the sandbox is the run's."""
    saved_files: Callable[[str], SnapshotId | None] = lambda _: None
    """Return the files of a competing agent that was interrupted; None starts with the node's."""
    save_work: SaveLaneWork = _ignore
    """Save the work of an agent that did not win."""


@dataclass(frozen=True)
class NodeRunner:
    """Runs a node of any type, with time limit, redaction and callbacks."""

    sandbox: PersistentSandbox
    run_agent: RunAgent
    _: KW_ONLY
    wrap: WrapNode = call_directly
    listener: RunListener = field(default_factory=RunListener)
    redact: Redact = lambda text: text
    lane_hooks: LaneHooks = field(default_factory=LaneHooks)

    def __call__(self, node: Node, ctx: RunContext) -> NodeResult:
        """Run the node.

        Raises:
            ValueError: the context has another `work_dir` than the sandbox.
        """
        if ctx.work_dir != self.sandbox.work_dir:
            raise ValueError(
                f"the context works in {ctx.work_dir!r} but the sandbox in "
                f"{self.sandbox.work_dir!r}"
            )
        self.listener.on_node_start(node.name)
        result = self.wrap(node, partial(self._execute, node, ctx))
        self.listener.on_node_complete(node.name, result)
        return result

    def _execute(self, node: Node, ctx: RunContext) -> NodeResult:
        started = monotonic()
        with attribute_errors(node.name):
            inside = NodeSandbox(
                self.sandbox,
                env=ctx.env,
                timeout_s=node.timeout_s,
                sink=lambda line: self.listener.on_line(node.name, self.redact(line)),
            )
            try:
                result = self._execute_in_time(node, ctx, inside)
            except DidNotReturn as late:
                lasted = round((monotonic() - started) * 1000)
                result = replace(NodeResult.failure(str(late)), duration_ms=lasted)
            error = result.error
            # The error of a killed command does not say why it was killed.
            if result.status == "failure" and inside.out_of_time:
                error = f"timed out after {node.timeout_s:g} s: {error}"
            return replace(
                result,
                output=self._clean(result.output),
                error=None if error is None else self._clean(error),
                tests=None if result.tests is None else result.tests.with_texts(self._clean),
                remark=self._clean(result.remark),
            )

    def _execute_in_time(self, node: Node, ctx: RunContext, inside: NodeSandbox) -> NodeResult:
        """Execute the node; the node's time limit ends its Python functions, too."""
        if node.skip is not None and call_in_time(partial(node.skip, ctx), inside):
            return NodeResult.skipped()
        if isinstance(node, Agentic):
            make = node.prompt
            node = replace(node, prompt=lambda ctx: call_in_time(partial(make, ctx), inside))
        execute = partial(
            execute_node,
            node,
            ctx,
            sandbox=inside,
            run_agent=self.run_agent,
            run_node=self,
            run_lanes=self._run_lanes,
        )
        plain = isinstance(node, Preflight | Deterministic)
        return call_in_time(execute, inside) if plain else execute()

    def _clean(self, text: str) -> str:
        return truncate_middle(self.redact(strip_control_characters(text)))

    def _run_lanes(self, node: Parallel | Compete, ctx: RunContext) -> NodeResult:
        if isinstance(node, Parallel):
            return run_parallel(node, ctx, lambda: self._lane_runner(self.sandbox))
        return run_compete(
            node,
            ctx,
            sandbox=self.sandbox,
            lane_runner=self._lane_runner,
            saved_files=self.lane_hooks.saved_files,
            save_work=self.lane_hooks.save_work,
        )

    def _lane_runner(self, sandbox: PersistentSandbox, entrant: str = "") -> RunLane:
        run = replace(self, sandbox=sandbox, wrap=self.lane_hooks.wrap(entrant, sandbox))
        return lambda nodes, ctx: run_nodes(nodes, ctx, run)


def run_nodes(
    nodes: Iterable[Node],
    ctx: RunContext,
    run_node: RunNode,
    *,
    checkpoint: Callable[[RunContext], None] = _ignore,
) -> RunContext:
    """Run the nodes in order and return the context with all results.

    Stop after the first node that fails. `checkpoint` is called with the context after each node.
    """
    for node in nodes:
        result = run_node(node, ctx)
        ctx = _with_node(ctx, node, result)
        checkpoint(ctx)
        if result.status == "failure":
            break
    return ctx


def execute_blueprint(
    blueprint: Blueprint,
    ctx: RunContext,
    *,
    sandbox: PersistentSandbox,
    run_agent: RunAgent,
    listener: RunListener | None = None,
) -> RunReport:
    """Run a blueprint in an existing sandbox, without Prefect.

    The workspace must be filled already; `flows.execution.engine` does it for real runs.
    """
    started = monotonic()
    run_node = NodeRunner(sandbox, run_agent, listener=listener or RunListener())
    done = run_nodes(blueprint.nodes, ctx, run_node)
    return build_report(blueprint, done, total_duration_ms=round((monotonic() - started) * 1000))


def _with_node(ctx: RunContext, node: Node, result: NodeResult) -> RunContext:
    ctx = ctx.with_result(node.name, result)
    for name, inner in result.lanes.items():
        ctx = ctx.with_result(name, inner)
    if not isinstance(node, Validate) or not result.attempts:
        return ctx
    # Later nodes and prompts see the last round; the report has all of them.
    ctx = with_step_results(ctx, node, result.attempts[-1])
    fixes = [attempt.fix for attempt in result.attempts if attempt.fix is not None]
    return ctx.with_result(node.on_failure.name, _merged(fixes)) if fixes else ctx


def _merged(fixes: Sequence[NodeResult]) -> NodeResult:
    """Return the last fix's result with the summed usage of all fixes."""
    return replace(
        # One report for all fixes, with the usage of all of them: each was paid for.
        fixes[-1],
        duration_ms=sum(fix.duration_ms for fix in fixes),
        turns=sum(fix.turns for fix in fixes),
        answers=dict(sum((Counter(fix.answers) for fix in fixes), Counter())),
        tool_calls=dict(sum((Counter(fix.tool_calls) for fix in fixes), Counter())),
        usage=reduce(Usage.__add__, (fix.usage for fix in fixes), Usage()),
        decisions=reduce(
            DecisionCounts.__add__, (fix.decisions for fix in fixes), DecisionCounts()
        ),
    )
