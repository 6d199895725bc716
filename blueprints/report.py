"""What a run's context holds, as the report of the run."""

from collections.abc import Mapping, Sequence
from functools import reduce

from blueprints.types import Blueprint
from contracts.chat import Usage
from contracts.names import without_attempt
from contracts.run import DecisionCounts, NodeReport, RunContext, RunReport
from nodes.types import NODE_TYPES, Node, inner_nodes


def build_report(blueprint: Blueprint, ctx: RunContext, *, total_duration_ms: int) -> RunReport:
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
        decisions=reduce(DecisionCounts.__add__, decisions, DecisionCounts()),
        failed_node=failed[0].name if failed else None,
        error=f"node {failed[0].name!r} failed: {failed[0].error}" if failed else None,
    )


def node_reports(nodes: Sequence[Node], ctx: RunContext) -> tuple[NodeReport, ...]:
    """One line for each node that has a result; a fix that ran has a line of its own."""
    lines: list[NodeReport] = []
    for node in nodes:
        entries = (node, *inner_nodes(node))
        lines += [_line(entry, ctx) for entry in entries if entry.name in ctx.results]
    return tuple(lines)


def exception_reports(
    nodes: Sequence[Node], took_ms: Mapping[str, int], error: str
) -> tuple[NodeReport, ...]:
    """One line for each of these nodes; an exception ended them, so the context has no result."""
    names = {without_attempt(name): ms for name, ms in took_ms.items()}
    return tuple(
        NodeReport(
            name=node.name,
            type=NODE_TYPES[type(node)],
            status="failure",
            error=error,
            duration_ms=names[node.name],
            raised=True,
        )
        for top in nodes
        for node in (top, *inner_nodes(top))
        if node.name in names
    )


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
