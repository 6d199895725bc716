"""The report of a run, from the results in its context."""

from collections.abc import Mapping, Sequence
from functools import reduce

from blueprints.types import Blueprint
from contracts.chat import Usage
from contracts.run import DecisionCounts, NodeReport, RunContext, RunReport, without_attempt
from nodes.types import NODE_TYPES, Node, inner_nodes


def build_report(blueprint: Blueprint, ctx: RunContext, *, total_duration_ms: int) -> RunReport:
    """Return the run's report. The run failed if a top-level node failed."""
    nodes = node_reports(blueprint.nodes, ctx)
    top_level = {node.name for node in blueprint.nodes}
    failed = next((n for n in nodes if n.status == "failure" and n.name in top_level), None)
    usage = reduce(Usage.__add__, (node.usage for node in nodes), Usage())
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
        decisions=reduce(
            DecisionCounts.__add__, (node.decisions for node in nodes), DecisionCounts()
        ),
        failed_node=failed.name if failed else None,
        error=f"node {failed.name!r} failed: {failed.error}" if failed else None,
    )


def node_reports(nodes: Sequence[Node], ctx: RunContext) -> tuple[NodeReport, ...]:
    """Return the reports of all nodes with a result, in order, including inner nodes."""
    every = [entry for node in nodes for entry in (node, *inner_nodes(node))]
    return tuple(_report(node, ctx) for node in every if node.name in ctx.results)


def exception_reports(
    nodes: Sequence[Node], durations_ms: Mapping[str, int], error: str
) -> tuple[NodeReport, ...]:
    """Return the reports of the nodes that an exception ended; they have no result."""
    durations = {without_attempt(name): ms for name, ms in durations_ms.items()}
    return tuple(
        NodeReport(
            name=node.name,
            type=NODE_TYPES[type(node)],
            status="failure",
            error=error,
            duration_ms=durations[node.name],
            raised=True,
        )
        for top in nodes
        for node in (top, *inner_nodes(top))
        if node.name in durations
    )


def _report(node: Node, ctx: RunContext) -> NodeReport:
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
        answers=result.answers,
        tool_calls=result.tool_calls,
        decisions=result.decisions,
        tests=result.tests,
        lacks=result.lacks,
        remark=result.remark,
    )
