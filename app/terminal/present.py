"""Reports and lists as a person reads them on stdout."""

from collections.abc import Sequence

from app.terminal.output import print_line
from contracts.run import NodeReport, RunReport


def print_report(report: RunReport) -> None:
    """A report in a few lines."""
    print_line(
        f"{report.blueprint} {report.run_id}: {report.status} in {_time(report.total_duration_ms)}"
    )
    for node in report.nodes:
        print_line(f"  {_node(node)}")
    if report.error:
        print_line(f"why: {report.error}")
    for notice in report.notices:
        print_line(f"note: {notice}")
    if report.branch:
        print_line(f"branch: {report.branch}{' (pushed)' if report.pushed else ''}")
        print_line(f"changes: {report.diff_stat}")
        if report.pull_request:
            print_line(f"pull request: {report.pull_request}")
        print_line(f"look: harness runs diff {report.run_id}")
    print_line(f"model: {report.model}, {report.token_usage.total} tokens, ${report.cost_usd:.4f}")
    if report.flow_run_url:
        print_line(f"in Prefect: {report.flow_run_url}")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns that line up, no wider than their widest cell."""
    cells = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_line("  ".join(padded).rstrip())


def _node(node: NodeReport) -> str:
    took = "" if node.status == "skipped" else f" in {_time(node.duration_ms)}"
    attempts = f", {len(node.attempts)} attempts" if len(node.attempts) > 1 else ""
    return f"{node.name}: {node.status}{took}{attempts}{_agent(node)}"


def _agent(node: NodeReport) -> str:
    """What an agent did and used, such as `, 3 turns (bash 2), 970 tokens, $0.0010`."""
    if not node.turns:
        return ""
    from flows.runs.report import tools_line

    tools = f" ({tools_line(node)})" if node.tool_calls else ""
    return f", {node.turns} turns{tools}, {node.usage.total} tokens, ${node.usage.cost_usd:.4f}"


def _time(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
