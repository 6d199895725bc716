"""A playbook as text that a person reads, and as a document that they edit."""

import json

from memory.content import content_json, parse_content
from memory.errors import PlaybookInvalid
from memory.playbooks.changes import PlaybookChanges
from memory.types import Playbook, PlaybookContent, PlaybookStep


def playbook_to_json(playbook: Playbook) -> str:
    """The content as JSON to edit; signs that nobody sees are written as `\\u202e`."""
    text = json.dumps(content_json(playbook), indent=2, ensure_ascii=False) + "\n"
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def parse_json(text: str) -> object:
    """What a JSON text holds.

    Raises:
        PlaybookInvalid: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of 4,301 digits, and nesting
        raise PlaybookInvalid(f"not a playbook: {error}. Write it as a JSON object") from error


def parse_changes(text: str) -> PlaybookChanges:
    """An edited document as changes of every field.

    Raises:
        PlaybookInvalid: it is no playbook any more.
    """
    content = parse_content(parse_json(text))
    return PlaybookChanges(
        **{name: getattr(content, name) for name in PlaybookContent.__dataclass_fields__}
    )


def playbook_to_text(playbook: Playbook) -> str:
    """A playbook for a person, with all that an agent would be told to do."""
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
    lines += [line for step in playbook.steps for line in _step(step)]
    lines += [f"lesson: {lesson.text}" for lesson in playbook.lessons]
    lines += [f"notes: {playbook.notes}"] if playbook.notes else []
    return "\n".join(lines)


def _step(step: PlaybookStep) -> list[str]:
    args = json.dumps(step.tool_args, ensure_ascii=False) if step.tool_args else ""
    more = {"tool": f"{step.tool} {args}".strip(), "expect": step.expected}
    more["otherwise"] = step.fallback
    told = [f"     {name}: {text}" for name, text in more.items() if text]
    return [f"  {step.order}. {step.action}", *told]
