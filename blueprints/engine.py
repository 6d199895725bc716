"""The loop: nodes in order, contexts threaded, a stop at the first failure.

The engine does not know how a node is made visible: `perform` is a plain call here and a
Prefect task run in `flows/compile.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from time import monotonic

from blueprints.lanes import KeepLane, RunLane, run_compete, run_parallel
from blueprints.types import Blueprint
from contracts.chat import Usage
from contracts.run import Decisions, NodeReport, NodeResult, RunContext, RunReport
from contracts.sandbox import LastingSandbox, SnapshotId
from nodes.blame import blaming
from nodes.execute import RunAgent, RunNode, execute_node
from nodes.node_sandbox import NodeSandbox
from nodes.text import Redact, cap, inert
from nodes.types import NODE_TYPES, Compete, Node, Parallel, Validate, inner, step_name

Perform = Callable[[Node, Callable[[], NodeResult]], NodeResult]
"""Calls the function it is given, once, in its own way."""


def _ignore(*_: object) -> None:
    pass


def _same(text: str) -> str:
    return text


def call(_: Node, execute: Callable[[], NodeResult]) -> NodeResult:
    """The plain `Perform`: just call it."""
    return execute()


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is told while a run goes on; steps and fixes of a validate node included."""

    on_node_start: Callable[[str], None] = _ignore
    on_node_complete: Callable[[str, NodeResult], None] = _ignore
    on_line: Callable[[str, str], None] = _ignore
    """Node name and one line of what its commands print or its agent does."""


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """How nodes beside each other are run."""

    perform: Callable[[str, LastingSandbox], Perform] = lambda _, __: call
    """Gives each lane a `Perform` of its own: of an agent that competes, by its name, in a fork of
    the sandbox; else unnamed in the sandbox itself."""
    files: Callable[[str], SnapshotId | None] = lambda _: None
    """The files with which an agent that competes goes on; None: it begins with everybody's."""
    keep: KeepLane = _ignore
    """What becomes of the work of an agent that did not win."""


def node_runner(
    sandbox: LastingSandbox,
    run_agent: RunAgent,
    *,
    perform: Perform = call,
    watch: Watch | None = None,
    redact: Redact = _same,
    lanes: Lanes | None = None,
) -> RunNode:
    """The function that runs any node: skips, performs, bounds, redacts and tells.

    Raises (when called):
        ValueError: the context's `work_dir` is not the sandbox's.
    """
    told = watch or Watch()
    beside = lanes or Lanes()

    def run_lane_in(place: LastingSandbox, entrant: str = "") -> RunLane:
        perform = beside.perform(entrant, place)
        run = node_runner(
            place, run_agent, perform=perform, watch=told, redact=redact, lanes=beside
        )
        return lambda nodes, ctx: run_nodes(nodes, ctx, run)

    def run_lanes(node: Parallel | Compete, ctx: RunContext) -> NodeResult:
        if isinstance(node, Parallel):
            return run_parallel(node, ctx, lambda: run_lane_in(sandbox))
        return run_compete(
            node,
            ctx,
            sandbox=sandbox,
            run_lane_in=run_lane_in,
            files=beside.files,
            keep=beside.keep,
        )

    def run_node(node: Node, ctx: RunContext) -> NodeResult:
        if ctx.work_dir != sandbox.work_dir:
            raise ValueError(
                f"the context works in {ctx.work_dir!r} but the sandbox in {sandbox.work_dir!r}"
            )

        def sink(line: str) -> None:
            told.on_line(node.name, redact(line))

        def execute() -> NodeResult:
            with blaming(node.name):
                if node.skip is not None and node.skip(ctx):
                    return NodeResult.skipped()
                inside = NodeSandbox(sandbox, env=ctx.env, timeout_s=node.timeout_s, sink=sink)
                result = execute_node(
                    node,
                    ctx,
                    sandbox=inside,
                    run_agent=run_agent,
                    run_node=run_node,
                    run_lanes=run_lanes,
                )
                return _tidy(_late(result, node, inside), redact)

        told.on_node_start(node.name)
        result = perform(node, execute)
        told.on_node_complete(node.name, result)
        return result

    return run_node


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
    sandbox: LastingSandbox,
    run_agent: RunAgent,
    watch: Watch | None = None,
) -> RunReport:
    """Execute a blueprint in a sandbox that is already there, without Prefect.

    The repository is neither put in nor collected: that is `flows.run`. (seed: blueprint-engine)
    """
    started = monotonic()
    done = run_nodes(blueprint.nodes, ctx, node_runner(sandbox, run_agent, watch=watch))
    return report(blueprint, done, total_duration_ms=round((monotonic() - started) * 1000))


def report(blueprint: Blueprint, ctx: RunContext, *, total_duration_ms: int) -> RunReport:
    """The report of what the context holds; the run failed when any of its nodes did."""
    nodes = node_reports(blueprint.nodes, ctx)
    failed = [node for node in nodes if node.status == "failure" and node.name in _own(blueprint)]
    usage = reduce(Usage.__add__, (node.usage for node in nodes), Usage())
    decisions = (ctx.results[node.name].decisions for node in nodes)
    return RunReport(
        run_id=ctx.run_id,
        blueprint=blueprint.name,
        status="failure" if failed else "success",
        nodes=nodes,
        repo=ctx.repo,
        intent=ctx.intent,
        agent=ctx.agent,
        model=ctx.model,
        total_duration_ms=total_duration_ms,
        token_usage=usage,
        cost_usd=usage.cost_usd,
        decisions=reduce(Decisions.__add__, decisions, Decisions()),
        error=f"node {failed[0].name!r} failed: {failed[0].error}" if failed else None,
    )


def node_reports(nodes: Sequence[Node], ctx: RunContext) -> tuple[NodeReport, ...]:
    """One line for each node that has a result; a fix that ran has a line of its own."""
    lines: list[NodeReport] = []
    for node in nodes:
        entries = (node, *inner(node))
        lines += [_line(entry, ctx) for entry in entries if entry.name in ctx.results]
    return tuple(lines)


def _own(blueprint: Blueprint) -> set[str]:
    return {node.name for node in blueprint.nodes}


def _line(node: Node, ctx: RunContext) -> NodeReport:
    result = ctx.results[node.name]
    return NodeReport(
        name=node.name,
        type=NODE_TYPES[type(node)],
        status=result.status,
        output=result.output,
        error=result.error,
        duration_ms=result.duration_ms,
        attempts=result.attempts,
        usage=result.usage,
        turns=result.turns,
        tool_calls=result.tool_calls,
        decisions=result.decisions,
    )


def _with_node(ctx: RunContext, node: Node, result: NodeResult) -> RunContext:
    ctx = ctx.with_result(node.name, result)
    for name, beside in result.lanes.items():
        ctx = ctx.with_result(name, beside)
    if not isinstance(node, Validate) or not result.attempts:
        return ctx
    for name, step in result.attempts[-1].steps.items():
        ctx = ctx.with_result(step_name(node, name), step)
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
        decisions=reduce(Decisions.__add__, (fix.decisions for fix in fixes), Decisions()),
    )


def _late(result: NodeResult, node: Node, inside: NodeSandbox) -> NodeResult:
    if result.status != "failure" or not inside.out_of_time:
        return result
    return replace(result, error=f"timed out after {node.timeout_s:g} s: {result.error}")


def _tidy(result: NodeResult, redact: Redact) -> NodeResult:
    return replace(
        result,
        output=cap(redact(inert(result.output))),
        error=None if result.error is None else cap(redact(inert(result.error))),
    )
