"""A playbook as JSON that a person edits, and as text that a person reads."""

import json

from memory.content import content_json, parse_content
from memory.errors import PlaybookInvalid
from memory.types import Playbook, PlaybookChanges, PlaybookStep


def playbook_to_json(playbook: Playbook) -> str:
    """Return the content as JSON to edit, with invisible characters escaped as `\\u202e`."""
    text = json.dumps(content_json(playbook), indent=2, ensure_ascii=False) + "\n"
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def parse_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        PlaybookInvalid: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of more than 4,300 digits
        raise PlaybookInvalid(f"not a playbook: {error}. Write it as a JSON object") from error


def parse_changes(text: str) -> PlaybookChanges:
    """Return an edited JSON document as changes of every field.

    Raises:
        PlaybookInvalid: it is not a playbook.
    """
    return PlaybookChanges(**vars(parse_content(parse_json(text))))


def playbook_to_text(playbook: Playbook) -> str:
    """Return a playbook as text, with everything that an agent would be told."""
    counts = playbook.counts
    lines = [
        f"{playbook.title} ({playbook.slug}, version {playbook.version}, {playbook.status})",
        f"id: {playbook.id}",
        f"confidence: {playbook.confidence:.0%}, {counts.succeeded} good, {counts.failures} failed",
    ]
    if playbook.use_case:
        lines.append(f"when: {playbook.use_case}")
    if playbook.category or playbook.tags:
        lines.append(f"filed under: {', '.join((playbook.category or '-', *playbook.tags))}")
    lines += [playbook.process] if playbook.process else []
    lines += [line for step in playbook.steps for line in _step_lines(step)]
    lines += [f"lesson: {lesson.text}" for lesson in playbook.lessons]
    lines += [f"notes: {playbook.notes}"] if playbook.notes else []
    return "\n".join(lines)


def _step_lines(step: PlaybookStep) -> list[str]:
    args = json.dumps(step.tool_args, ensure_ascii=False) if step.tool_args else ""
    parts = {
        "tool": f"{step.tool} {args}".strip(),
        "expect": step.expected,
        "otherwise": step.fallback,
    }
    details = [f"     {name}: {text}" for name, text in parts.items() if text]
    return [f"  {step.order}. {step.action}", *details]
