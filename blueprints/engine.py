"""The loop: nodes in order, contexts threaded, a stop at the first failure.

The engine does not know how a node is made visible: `perform` is a plain call here and a
Prefect task run in `flows/orchestration/node_tasks.py`.
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
from nodes.types import Compete, Node, Parallel, Validate

WrapNode = Callable[[Node, Callable[[], NodeResult]], NodeResult]
"""Calls the function it is given, once, in its own way."""


def _ignore(*_: object) -> None:
    pass


def _same(text: str) -> str:
    return text


def call_directly(_: Node, execute: Callable[[], NodeResult]) -> NodeResult:
    """The plain `Perform`: just call it."""
    return execute()


@dataclass(frozen=True, kw_only=True)
class RunListener:
    """What is told while a run goes on; steps and fixes of a validate node included."""

    on_node_start: Callable[[str], None] = _ignore
    on_node_complete: Callable[[str, NodeResult], None] = _ignore
    on_line: Callable[[str, str], None] = _ignore
    """Node name and one line of what its commands print or its agent does."""


@dataclass(frozen=True, kw_only=True)
class LaneHooks:
    """How nodes beside each other are run."""

    wrap: Callable[[str, PersistentSandbox], WrapNode] = lambda _, __: call_directly
    """Gives each lane a `Perform` of its own: of an agent that competes, by its name, in a fork of
    the sandbox; else unnamed in the sandbox itself."""
    saved_files: Callable[[str], SnapshotId | None] = lambda _: None
    """The files with which an agent that competes goes on; None: it begins with everybody's."""
    save_work: SaveLaneWork = _ignore
    """What becomes of the work of an agent that did not win."""


@dataclass(frozen=True)
class NodeRunner:
    """Runs any node: skips, performs, bounds, redacts and tells."""

    sandbox: PersistentSandbox
    run_agent: RunAgent
    _: KW_ONLY
    wrap: WrapNode = call_directly
    listener: RunListener = field(default_factory=RunListener)
    redact: Redact = _same
    lane_hooks: LaneHooks = field(default_factory=LaneHooks)

    def __call__(self, node: Node, ctx: RunContext) -> NodeResult:
        """The node's result.

        Raises:
            ValueError: the context's `work_dir` is not the sandbox's.
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
        with attribute_errors(node.name):
            if node.skip is not None and node.skip(ctx):
                return NodeResult.skipped()
            inside = NodeSandbox(
                self.sandbox,
                env=ctx.env,
                timeout_s=node.timeout_s,
                sink=lambda line: self.listener.on_line(node.name, self.redact(line)),
            )
            result = execute_node(
                node,
                ctx,
                sandbox=inside,
                run_agent=self.run_agent,
                run_node=self,
                run_lanes=self._run_lanes,
            )
            return _tidy(_with_timeout(result, node, inside), self.redact)

    def _run_lanes(self, node: Parallel | Compete, ctx: RunContext) -> NodeResult:
        if isinstance(node, Parallel):
            return run_parallel(node, ctx, lambda: self._run_lane_in(self.sandbox))
        return run_compete(
            node,
            ctx,
            sandbox=self.sandbox,
            run_lane_in=self._run_lane_in,
            files=self.lane_hooks.saved_files,
            keep=self.lane_hooks.save_work,
        )

    def _run_lane_in(self, place: PersistentSandbox, entrant: str = "") -> RunLane:
        run = replace(self, sandbox=place, wrap=self.lane_hooks.wrap(entrant, place))
        return lambda nodes, ctx: run_nodes(nodes, ctx, run)


def run_nodes(
    nodes: Iterable[Node],
    ctx: RunContext,
    run_node: RunNode,
    *,
    checkpoint: Callable[[RunContext], None] = _ignore,
) -> RunContext:
    """Run the nodes in order and give the context with all their results.

    Stops after the first node that fails. `checkpoint` is called with the context after each.
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
    """Execute a blueprint in a sandbox that is already there, without Prefect.

    The repository is neither put in nor collected: that is `flows.execution.engine`.
    """
    started = monotonic()
    run_node = NodeRunner(sandbox, run_agent, listener=listener or RunListener())
    done = run_nodes(blueprint.nodes, ctx, run_node)
    return build_report(blueprint, done, total_duration_ms=round((monotonic() - started) * 1000))


def _with_node(ctx: RunContext, node: Node, result: NodeResult) -> RunContext:
    ctx = ctx.with_result(node.name, result)
    for name, beside in result.lanes.items():
        ctx = ctx.with_result(name, beside)
    if not isinstance(node, Validate) or not result.attempts:
        return ctx
    ctx = with_step_results(ctx, node, result.attempts[-1])
    fixes = [attempt.fix for attempt in result.attempts if attempt.fix is not None]
    return ctx.with_result(node.on_failure.name, _merged(fixes)) if fixes else ctx


def _merged(fixes: Sequence[NodeResult]) -> NodeResult:
    """All rounds of a fix as one result: how the last one ended, what all of them took."""
    return replace(
        fixes[-1],
        duration_ms=sum(fix.duration_ms for fix in fixes),
        turns=sum(fix.turns for fix in fixes),
        tool_calls=dict(sum((Counter(fix.tool_calls) for fix in fixes), Counter())),
        usage=reduce(Usage.__add__, (fix.usage for fix in fixes), Usage()),
        decisions=reduce(
            DecisionCounts.__add__, (fix.decisions for fix in fixes), DecisionCounts()
        ),
    )


def _with_timeout(result: NodeResult, node: Node, inside: NodeSandbox) -> NodeResult:
    if result.status != "failure" or not inside.out_of_time:
        return result
    return replace(result, error=f"timed out after {node.timeout_s:g} s: {result.error}")


def _tidy(result: NodeResult, redact: Redact) -> NodeResult:
    return replace(
        result,
        output=truncate_middle(redact(strip_control_characters(result.output))),
        error=None
        if result.error is None
        else truncate_middle(redact(strip_control_characters(result.error))),
    )
