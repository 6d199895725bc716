"""The YAML at the beginning of a Markdown file, with the line and column of each value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from contracts.errors import BlueprintInvalid

_FENCE = "---"

Path = Sequence[str | int]
"""Keys and indexes that lead to a value, such as `("nodes", 0, "name")`."""


class Problem(NamedTuple):
    """An error message with its line and column in the file, both counted from 1."""

    line: int
    column: int
    text: str

    def error(self, file: str) -> BlueprintInvalid:
        """Return the error for the user, which begins with the place."""
        return BlueprintInvalid(f"{file}:{self.line}:{self.column}: {self.text}")


@dataclass(frozen=True)
class MarkdownFile:
    """A Markdown file: the data of its front matter and the lines of its body.

    `body_line` is the line of the file on which the body begins.
    """

    file: str
    data: object
    body: tuple[str, ...]
    body_line: int
    root: yaml.Node

    def place(self, path: Path, *, of_key: bool = False) -> str:
        """Return `file:line:column` of a value or of its key; of the nearest one that is there."""
        node = self.root
        for part in path:
            key, value = _child(node, part)
            if value is None:
                break
            node = key if of_key and part == path[-1] and key is not None else value
        return f"{self.file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def read_markdown(text: str, file: str) -> MarkdownFile:
    """Read the front matter of a file and split off its body.

    Raises:
        BlueprintInvalid: there is no front matter, or it is not plain YAML.
    """
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(ends) < 2 or ends[0] != 0:
        problem = "a Markdown blueprint begins with settings between two lines '---'"
        raise Problem(1, 1, problem).error(file)
    # An empty line instead of the fence, so that YAML counts lines as the file does.
    front = "\n".join(["", *lines[1 : ends[1]]])
    try:
        root, data = _parse(front, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Problem(mark.line + 1, mark.column + 1, error.problem or "").error(file) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0]
        raise Problem(2, 1, f"the settings cannot be read: {said}").error(file) from error
    body = tuple(lines[ends[1] + 1 :])
    return MarkdownFile(file, data, body, ends[1] + 2, root)


def _parse(front: str, file: str) -> tuple[yaml.Node, object]:
    for event in yaml.parse(front, yaml.SafeLoader):
        # Aliases can make a small text large, and PyYAML reads odd tags with odd exceptions.
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias or (isinstance(event, yaml.NodeEvent) and event.tag is not None):
            mark = event.start_mark
            problem = "aliases (*name) and tags (!name) are not allowed here: write a plain value"
            raise Problem(mark.line + 1, mark.column + 1, problem).error(file)
    loader = yaml.SafeLoader(front)
    root = loader.get_single_node()
    if not isinstance(root, yaml.MappingNode):
        raise Problem(2, 1, "the settings must be lines such as 'name: tidy'").error(file)
    _refuse_doubled_keys(root, file)
    return root, loader.construct_document(root)


def _refuse_doubled_keys(node: yaml.Node, file: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_doubled_keys(value, file)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if str(key.value) in seen:
            mark = key.start_mark
            problem = f"{key.value!r} is set twice"
            raise Problem(mark.line + 1, mark.column + 1, problem).error(file)
        seen.add(str(key.value))
        _refuse_doubled_keys(value, file)


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        found = [pair for pair in node.value if pair[0].value == part]
        return found[0] if found else (None, None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None, None
