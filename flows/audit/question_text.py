"""The text of one question to a person: the same on the command line, in forms, on pages and in
the HTTP API.

It says what will happen, to what, why it is asked, where the idea came from, and what a yes and a
no do.
"""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import NamedTuple

from contracts.tool import Denied
from flows.audit.approval_text import argument_lines, argument_text, one_line
from nodes.text import code_block
from policy.guard.changed_files import COLLECTED_WORK
from policy.guard.guard import MENTIONED
from policy.plan.registry import plain_json
from policy.types import Approval

_WIDTH = 56
"""Characters of a line in the form of Prefect."""

_SHOWN = 20_000
"""Characters of one argument that a form shows; the page *Approvals* shows all."""

_STEPS: Mapping[str, str] = {
    "send_email": "sends a mail",
    "write_file": "writes a file of the workspace",
    "read_file": "reads a file",
    "search_code": "searches the files",
    "run_command": "runs a command in the sandbox",
    "git_commit": "commits what changed",
    "git_push": "pushes commits",
    "http_fetch": "gets a web page",
    "run_blueprint": "starts a run",
}
_AGENTS: Mapping[str, str] = {
    "/path": "writes a protected file",
    "/tool": "calls an MCP server",
}
"""Actions of an agent, by the argument that a denial names."""

_RULES: Mapping[str, str] = {
    "C1": "It needs a permission that you have not given",
    "C2": "Its data carry restrictions that the step does not declare",
    "C3": "Its data may not go there",
    "C4": "Untrusted text may have decided what is done, or to whom",
    "C5": "It differs from the plan that you agreed to",
    "C6": "Untrusted text may have decided whether it is done",
}


class Section(NamedTuple):
    """One part of a question: its heading, and its lines."""

    title: str
    lines: tuple[str, ...]


def question(approval: Approval, *, limit: int | None = None) -> tuple[Section, ...]:
    """Return the whole question; an argument longer than `limit` is cut, and says so."""
    yes, no = _answers(approval)
    expires = f"Without a decision it expires on {approval.expires_at:%Y-%m-%d %H:%M} UTC."
    return (
        Section("What will happen", (one_line(_action(approval)),)),
        Section("To what", tuple(_arguments(approval, limit))),
        Section("Why you are asked", tuple(map(one_line, _reasons(approval)))),
        Section("Where the idea came from", tuple(map(one_line, _origins(approval)))),
        Section("If you say yes", (yes, *map(one_line, _beforehand(approval)))),
        Section("If you say no", (no, expires)),
    )


def full_text(approval: Approval) -> list[str]:
    """Return the question as lines for a terminal."""
    return [line for section in question(approval) for line in _lines(section)]


def approval_json(approval: Approval) -> dict[str, object]:
    """Return the approval as a JSON object, with the text of its question."""
    denied = approval.denied
    return {
        "id": approval.id,
        "run_id": approval.run_id,
        "status": approval.status,
        "step": approval.step,
        "node": approval.node,
        "agent": approval.agent,
        "op": approval.op,
        "question": [section._asdict() for section in question(approval)],
        "arguments": plain_json(approval.arguments),
        "rule": denied.rule,
        "argument": denied.argument,
        "tags": sorted(denied.tags),
        "reason": denied.reason,
        "provenance": list(denied.provenance),
        "also": [f"{one.rule}: {one.reason}" for one in denied.others],
        "asked_at": approval.asked_at.isoformat(),
        "expires_at": approval.expires_at.isoformat(),
        "decided_by": approval.decided_by,
    }


def form_text(approval: Approval, more: int) -> str:
    """Return the question as Markdown, with the number of further pending approvals."""
    after = f"; {more} more after this" if more else ""
    parts = [f"**Run {approval.run_id}** waits for you{after}."]
    for section in question(approval, limit=_SHOWN):
        lines = section.lines
        if section.title != "To what":
            lines = tuple(line for text in lines for line in _wrapped(text))
        parts.append(f"**{section.title}**\n\n{code_block(chr(10).join(lines))}")
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> list[str]:
    """Return the text in short lines; options and paths stay whole, so that they can be copied."""
    return wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


def _lines(section: Section) -> list[str]:
    if len(section.lines) == 1:
        return [f"{section.title}: {section.lines[0].strip()}"]
    return [f"{section.title}:", *(f"  {line}" for line in section.lines)]


def _is_work(approval: Approval) -> bool:
    return approval.node == COLLECTED_WORK


def _action(approval: Approval) -> str:
    if _is_work(approval):
        return f"Run {approval.run_id} publishes its work, in which a protected file is changed."
    if approval.node:
        arguments = {denied.argument for denied in approval.denied.denials}
        does = next((_AGENTS[one] for one in _AGENTS if one in arguments), "contacts a host")
        where = f"in node {approval.node!r} of run {approval.run_id}"
        return f"The agent {approval.agent} {does} with its tool {approval.op}, {where}."
    if approval.is_question:
        return f"Plan {approval.run_id} asks you a question and goes on with your answer."
    known = _STEPS.get(approval.op)
    does = f"{known} ({approval.op})" if known else f"does {approval.op}"
    return f"Step {approval.step} of plan {approval.run_id} {does}."


def _arguments(approval: Approval, limit: int | None) -> Iterator[str]:
    if not approval.arguments:
        yield "it has no arguments"
    for name, value in approval.arguments.items():
        text = argument_text(value)
        yield from argument_lines(name, text if limit is None else text[:limit])
        if limit is not None and len(text) > limit:
            more = len(text) - limit
            yield f"[… {more} more characters: `harness approvals show {approval.id}`]"


def _reasons(approval: Approval) -> Iterator[str]:
    if approval.is_question:
        yield "The plan cannot know the answer, and only your own words are trusted."
        return
    for denied in approval.denied.denials:
        yield f"{_reason(approval, denied)} (CAPABILITY_VIOLATION, rule {denied.rule})."


def _reason(approval: Approval, denied: Denied) -> str:
    because = _RULES.get(denied.rule, "The policy has no rule that allows it")
    if not approval.node and denied.rule in ("C4", "C6") and denied.tags:
        decides = denied.argument.strip("/") if denied.rule == "C4" else ""
        what = repr(decides) if decides in approval.arguments else "whether it is done"
        tags = ", ".join(sorted(denied.tags))
        return f"{because}: text from {tags}, which is not trusted, decides {what}"
    return f"{because}: {denied.reason.partition(_BEFOREHAND)[0]}"


_BEFOREHAND = ": to permit it, "


def _beforehand(approval: Approval) -> Iterator[str]:
    """Yield how to permit the action without a question."""
    for denied in approval.denied.denials:
        _, found, option = denied.reason.partition(_BEFOREHAND)
        if found:
            yield f"To permit it without a question, {option.partition(' (')[0]}."


def _origins(approval: Approval) -> Iterator[str]:
    if approval.is_question:
        yield "From the plan that you agreed to."
        return
    for denied in approval.denied.denials:
        way = [one for one in denied.provenance if not one.startswith(MENTIONED)]
        argument = denied.argument.strip("/")
        if argument in approval.arguments:
            way.append(f"the argument {argument!r}")
        yield " → ".join(way) if denied.provenance else "From the plan that you agreed to."
        for note in denied.provenance:
            if note.startswith(MENTIONED):
                yield f"{note[0].upper()}{note[1:]}. That permits nothing."


def _answers(approval: Approval) -> tuple[str, str]:
    """Return what a yes and a no do."""
    if _is_work(approval):
        return (
            "The work may be published with exactly this change. Each other protected file is "
            "another question.",
            "The work stays on its branch and is not pushed, and the run fails.",
        )
    if approval.node:
        return (
            "The agent may make exactly this call, once, and the run goes on.",
            "The call is not made, and the run ends with the work that it has.",
        )
    if approval.is_question:
        return (
            "Your answer counts as your own words, and the plan goes on with it.",
            "The plan gets no answer and fails.",
        )
    return (
        "Exactly this is done, once, and the plan goes on.",
        "It is not done, and the plan fails.",
    )
