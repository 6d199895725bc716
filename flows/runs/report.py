"""A run's report as JSON and as Markdown, and the usage of models from its trajectory."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from contracts.chat import Usage, model_names
from contracts.run import NodeReport, RunReport, SurfacedMemory
from contracts.verdicts import Verdicts
from nodes.text import code_block, strip_control_characters, subject_line, truncate_middle
from providers.openai_messages import usage_from
from providers.trajectory import read_trajectory

DIFF_CAP = 100_000
"""Characters of the diff in a Markdown report. `diff.patch` has the whole diff."""

_OUTPUT_CAP = 4_000
_TESTS_CAP = 100


@cache
def adapter() -> TypeAdapter[RunReport]:
    """Return the converter to and from JSON. Cached: building it takes 20 ms."""
    return TypeAdapter(RunReport)


def to_json(report: RunReport) -> dict[str, object]:
    """Return the report as the JSON object that docs/reference/cli.md describes."""
    data: dict[str, object] = adapter().dump_python(
        report, mode="json", exclude={"token_usage": {"cost_usd"}}
    )
    return data


def dumps(report: RunReport) -> str:
    """Return the JSON document that `harness run --json` prints."""
    return json.dumps(to_json(report), indent=2)


def loads(text: str) -> RunReport:
    """Read a report that `dumps` wrote. Fields of a newer version are ignored.

    Raises:
        ValueError: the text is no report.
    """
    return adapter().validate_json(text)


def report_markdown(report: RunReport, diff: str) -> str:
    """Return the report as Markdown: status, nodes, diff."""
    shown_diff = truncate_middle(strip_control_characters(diff), DIFF_CAP)
    parts = [
        *_overview(report),
        *([f"## Diff\n\n{code_block(shown_diff, 'diff')}"] if diff else []),
        *(_details(node) for node in report.nodes if node.status != "skipped"),
    ]
    return "\n\n".join(parts) + "\n"


def summary_markdown(report: RunReport) -> str:
    """Return the report for a pull request: of the nodes only those that failed or ran tests."""
    told = (node for node in report.nodes if node.status == "failure" or node.tests)
    return "\n\n".join((*_overview(report), *map(_details, told))) + "\n"


def surfaced_markdown(surfaced: SurfacedMemory, site: str | None) -> str:
    """Return links to the playbooks, notes and examples shown to the run; empty without any."""
    shown = {
        "playbook": surfaced.playbooks,
        "note": surfaced.notes,
        "example": surfaced.examples,
    }
    rows = [
        f"- {kind} {page_link(f'`{ref}`', site, kind, ref)}"
        for kind, refs in shown.items()
        for ref in refs
    ]
    return "\n".join(["## What it was given", "", *rows, ""]) if rows else ""


def page_link(text: str, site: str | None, kind: str, ref: str) -> str:
    """Return a Markdown link to the page of a playbook, note or example; only `text` without a
    site."""
    return f"[{text}]({site}{kind}s/{ref})" if site else text


def table_rows(report: RunReport) -> list[dict[str, str]]:
    """Return one row per node, for a table artifact."""
    return [
        {
            "node": node.name,
            "type": node.type,
            "status": node.status,
            "seconds": f"{node.duration_ms / 1000:.1f}",
            "attempts": str(len(node.attempts) or ""),
            "turns": str(node.turns or ""),
            "tools": tools_line(node),
            "tokens": str(node.usage.total or ""),
            "dollars": f"{node.usage.cost_usd:.4f}" if node.usage.total else "",
            "tests": str(node.tests or ""),
            "error": node.error or "",
        }
        for node in report.nodes
    ]


def tools_line(node: NodeReport) -> str:
    """Return the tools that an agent used, most used first, such as `bash 3, read_file 1`."""
    used = sorted(node.tool_calls.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{strip_control_characters(name)} {count}" for name, count in used)


def models_line(report: RunReport) -> str:
    """Return the model; of several, also how many replies each of them gave."""
    answers = sum((Counter(node.answers) for node in report.nodes), Counter[str]())
    if len(answers) < 2 and len(model_names(report.model)) < 2:
        return report.model
    counted = ", ".join(f"{count} by {name}" for name, count in answers.most_common())
    return f"{report.model} (replies: {counted})"


def _overview(report: RunReport) -> Iterator[str]:
    yield f"# {report.blueprint}: {report.status}"
    if report.error:
        yield f"**{inert_line(report.error)}**"
    yield _facts(report)
    yield _table(report)
    if report.outputs:
        yield _outputs(report)


def _facts(report: RunReport) -> str:
    rows = {
        "run": report.run_id,
        "intent": inert_line(subject_line(report.intent)),
        "repository": inert_line(report.repo),
        "branch": report.branch and f"`{report.branch}`{' (pushed)' if report.pushed else ''}",
        "pull request": report.pull_request,
        "checks": report.checks and inert_line(str(report.checks)),
        "base": report.base_commit,
        "commit": report.commit,
        "changes": str(report.diff_stat),
        "agent and model": f"{report.agent}, {inert_line(models_line(report))}",
        "tokens": f"{report.token_usage.total} ({report.cost_usd:.4f} USD)",
        "time": f"{report.total_duration_ms / 1000:.1f} s",
        "notices": inert_line("; ".join(report.notices)),
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items() if value)


def _table(report: RunReport) -> str:
    head = (
        "| node | type | status | time | turns | tools | tokens | dollars |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    rows = (
        f"| {inert_line(n.name)} | {n.type} | {n.status} | {n.duration_ms / 1000:.1f} s "
        f"| {n.turns or ''} | {inert_line(tools_line(n))} | {n.usage.total or ''} "
        f"| {f'{n.usage.cost_usd:.4f}' if n.usage.total else ''} |"
        for n in report.nodes
    )
    return "\n".join((head, *rows))


def _outputs(report: RunReport) -> str:
    """Return what agents proposed to do outside, and what became of it."""
    rows = (f"- {inert_line(one.node)}: {inert_line(str(one))}" for one in report.outputs)
    return "\n".join(("## Outputs\n", *rows))


def _details(node: NodeReport) -> str:
    lines = [f"## {inert_line(node.name)}: {node.status}"]
    if said := node.error or node.remark:
        lines.append(inert_line(said))
    lines += [
        f"- attempt {attempt.number}: "
        + ", ".join(f"{inert_line(name)} {result.status}" for name, result in attempt.steps.items())
        for attempt in node.attempts
    ]
    if node.tests is not None:
        lines.append("\n".join(_test_lines(node.tests)))
    if node.output:
        lines.append(code_block(truncate_middle(node.output, _OUTPUT_CAP)))
    return "\n\n".join(lines)


def _test_lines(tests: Verdicts) -> Iterator[str]:
    yield f"- tests: {tests}"
    if tests.reference:
        yield f"- compared with {inert_line(tests.reference)}"
    rows = [
        *(("failed", test.name, "") for test in tests.failed),
        *(("environment", test.name, test.message) for test in tests.environment),
        *(("failed before", test.name, "") for test in tests.failed_before),
        *(("flaky", name, "") for name in tests.flaky),
        *(("fixed", name, "") for name in tests.fixed),
    ]
    for word, name, why in rows[:_TESTS_CAP]:
        yield f"- {word}: {inert_line(name)}{f' ({inert_line(why)})' if why else ''}"
    if len(rows) > _TESTS_CAP:
        yield f"- and {len(rows) - _TESTS_CAP} more"


def inert_line(text: str | None) -> str:
    """Return the text on one line, with Markdown and HTML escaped."""
    flat = html.escape(" ".join(strip_control_characters(text or "").split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#!])", r"\\\1", flat)


def total_usage(trajectory: Path) -> Usage | None:
    """Return the usage of all calls, also interrupted ones; None if no model was called.

    This includes calls whose node has no result because an outage came in between.
    """
    if not trajectory.is_file():
        return None
    found = (event.get("usage") for event in trajectory_events(trajectory, "reply", "broken"))
    usages = (usage_from(usage) for usage in found if isinstance(usage, Mapping))
    return sum(usages, Usage())


def fallback_notices(trajectory: Path) -> tuple[str, ...]:
    """Return one line for each model that did not answer, so that another one was asked."""
    events = trajectory_events(trajectory, "fallback")
    reasons = {str(event.get("model")): str(event.get("why")) for event in events}
    return tuple(f"another model was asked: {why}" for why in reasons.values())


def trajectory_events(trajectory: Path, *kinds: str) -> Iterator[Mapping[str, object]]:
    """Yield the trajectory's events of these kinds; none if the file does not exist."""
    if trajectory.is_file():
        yield from (event for event in read_trajectory(trajectory) if event.get("kind") in kinds)
