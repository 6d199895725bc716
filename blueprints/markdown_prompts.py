"""The prompts in the body of a Markdown blueprint: a section for each agent."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from blueprints.front_matter import MarkdownFile
from blueprints.markdown_model import PROMPTED, NodeTable
from blueprints.prompts import TextPrompt
from contracts.errors import BlueprintInvalid

_HEADING = "## "
_CODE_FENCES = ("```", "~~~")


@dataclass(frozen=True)
class _Section:
    """Text below a heading that is a node's name. `line` is the first one after the heading."""

    line: int
    text: str


def read_prompts(source: MarkdownFile, nodes: Iterable[NodeTable]) -> dict[str, TextPrompt]:
    """Return the prompt of each agent by the name of its node.

    A heading `## name` begins the section of that node; other headings are text. What stands above
    the first section belongs to every prompt. A single agent needs no section.

    Raises:
        BlueprintInvalid: an agent has no prompt, or a section has no agent or is there twice.
    """
    nodes = list(nodes)
    agents = [node.name for node in nodes if isinstance(node, PROMPTED)]
    shared, sections = _sections(source, {node.name for node in nodes})
    for name, section in sections.items():
        if name not in agents:
            where = f"{source.file}:{section.line - 1}:1"
            raise BlueprintInvalid(f"{where}: node {name!r} is no agent, so it has no prompt")
    prompts: dict[str, TextPrompt] = {}
    for name in agents:
        own = [sections[name]] if name in sections else []
        parts = [part for part in (shared, *own) if part.text.strip()]
        if not parts or (not own and len(agents) > 1):
            raise BlueprintInvalid(
                f"{source.file}:{source.body_line}:1: node {name!r} has no prompt: write it below "
                f"a line '{_HEADING}{name}'"
            )
        prompts[name] = TextPrompt(
            tuple(part.text for part in parts), source.file, tuple(part.line for part in parts)
        )
    return prompts


def _sections(source: MarkdownFile, names: set[str]) -> tuple[_Section, dict[str, _Section]]:
    """Return the text above the first section, and the sections by name."""
    starts = [*_headings(source, names), (len(source.body), "")]
    shared = _Section(source.body_line, "\n".join(source.body[: starts[0][0]]))
    sections: dict[str, _Section] = {}
    for (start, name), (end, _) in pairwise(starts):
        line = source.body_line + start + 1
        if name in sections:
            raise BlueprintInvalid(
                f"{source.file}:{line - 1}:1: node {name!r} has two sections: join them"
            )
        sections[name] = _Section(line, "\n".join(source.body[start + 1 : end]))
    return shared, sections


def _headings(source: MarkdownFile, names: set[str]) -> list[tuple[int, str]]:
    """Return index and name of the headings that are names; code blocks have none."""
    found: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate(source.body):
        in_code ^= line.lstrip().startswith(_CODE_FENCES)
        name = line.removeprefix(_HEADING).strip()
        if not in_code and line.startswith(_HEADING) and name in names:
            found.append((number, name))
    return found
