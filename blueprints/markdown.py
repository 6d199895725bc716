"""Blueprints in Markdown: settings and nodes in front matter, prompts in the body.

A file compiles to the same `Blueprint` as Python does. It can execute no Python: its commands run
in the sandbox, and its prompts are templates that can only read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short_repr
from typing import assert_never

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from blueprints.dsl import compete
from blueprints.front_matter import MarkdownFile, read_markdown
from blueprints.markdown_model import (
    KINDS,
    AgentNode,
    AgentSettings,
    BlueprintTable,
    CheckNode,
    CommentNode,
    CompeteNode,
    LabelNode,
    NodeTable,
    NotifyNode,
    OpenIssueNode,
    OutputNode,
    ParallelNode,
    PullRequestNode,
    ReviewNode,
    RunNode,
    Steps,
)
from blueprints.markdown_prompts import read_prompts
from blueprints.prompts import TextPrompt
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid
from nodes.checks import has_tools
from nodes.commands import command, shell
from nodes.outputs.terms import (
    CommentTerms,
    LabelTerms,
    NotifyTerms,
    OpenIssueTerms,
    PullRequestTerms,
    ReviewTerms,
    Terms,
)
from nodes.text import one_line
from nodes.types import (
    Agentic,
    Deterministic,
    Node,
    NodeFunction,
    Output,
    Parallel,
    Preflight,
    Validate,
    ValidationStep,
)


def parse_markdown(text: str, file: str) -> Blueprint:
    """Return the blueprint of a Markdown file.

    Raises:
        BlueprintInvalid: it is malformed; the message begins with file, line and column.
    """
    source = read_markdown(text, file)
    try:
        table = BlueprintTable.model_validate(source.data)
    except ValidationError as error:
        raise _invalid(source, error.errors()[0]) from error
    return _Compiler(source, table, read_prompts(source, _node_tables(table.nodes))).blueprint()


def first_blueprint(file: Path) -> str:
    """Return the text of a blueprint to begin with, which works and explains itself."""
    text = (Path(__file__).parent / "first_blueprint.md").read_text(encoding="utf-8")
    return text.replace("{{ file }}", file.name).replace("{{ name }}", file.stem)


@dataclass(frozen=True)
class _Compiler:
    """Makes nodes of the tables of one file."""

    source: MarkdownFile
    table: BlueprintTable
    prompts: Mapping[str, TextPrompt]

    def blueprint(self) -> Blueprint:
        table, place = self.table, self.source.place(("name",))
        tools: list[Node] = []
        if table.needs:
            described, where = "The sandbox has the programs", self.source.place(("needs",))
            tools = [Preflight("tools", described, has_tools(*table.needs), place=where)]
        return Blueprint(
            table.name,
            table.description,
            [*tools, *self._nodes(table.nodes, ("nodes",))],
            options=table.options,
            egress=table.egress,
            changes=table.changes,
            mcp=table.mcp,
            reads_checks=table.reads_checks,
            needs_intent=table.needs_intent,
            place=place,
        )

    def _nodes(self, tables: Sequence[NodeTable], path: tuple[str | int, ...]) -> list[Node]:
        return [self._node(table, (*path, number)) for number, table in enumerate(tables)]

    def _node(self, table: NodeTable, path: tuple[str | int, ...]) -> Node:
        place = self.source.place(path)
        match table:
            case RunNode():
                return Deterministic(
                    table.name,
                    table.description,
                    _work(table.run, place),
                    timeout_s=table.timeout_s,
                    place=place,
                )
            case AgentNode():
                return self._agent(table, table.name, place, timeout_s=table.timeout_s)
            case CheckNode():
                return Validate(
                    table.name,
                    table.description,
                    steps=_steps(table.check, place),
                    on_failure=self._agent(table, f"fix-{table.name}", place),
                    max_retries=table.retries,
                    timeout_s=table.timeout_s,
                    place=place,
                )
            case ParallelNode():
                lanes = [
                    self._nodes(lane, (*path, "parallel", number))
                    for number, lane in enumerate(table.parallel)
                ]
                return Parallel(table.name, table.description, lanes=lanes, place=place)
            case CompeteNode():
                settings = self._settings(table)
                return compete(
                    table.name,
                    table.description,
                    table.compete,
                    prompt=self.prompts[table.name],
                    steps=_steps(table.check, place),
                    agents=table.agents,
                    allowed_tools=settings.tools,
                    max_turns=settings.max_turns,
                    max_tokens=settings.max_tokens,
                    timeout_s=table.timeout_s,
                    place=place,
                )
            case (
                CommentNode()
                | LabelNode()
                | OpenIssueNode()
                | ReviewNode()
                | NotifyNode()
                | PullRequestNode()
            ):
                return Output(
                    table.name,
                    table.description,
                    terms=_terms(table),
                    by=table.by,
                    required=table.required,
                    place=place,
                )
            case _:
                assert_never(table)

    def _agent(
        self,
        table: AgentNode | CheckNode,
        name: str,
        place: str,
        *,
        timeout_s: float | None = None,
    ) -> Agentic:
        settings = self._settings(table)
        return Agentic(
            name,
            table.description,
            prompt=self.prompts[table.name],
            agent=settings.agent,
            model=settings.model,
            allowed_tools=settings.tools,
            max_turns=settings.max_turns,
            max_tokens=settings.max_tokens,
            timeout_s=timeout_s,
            place=place,
        )

    def _settings(self, table: BaseModel) -> AgentSettings:
        """Return the node's own settings, and the file's for those that it does not set."""
        names = set(AgentSettings.model_fields)
        given = [one.model_dump(include=names, exclude_unset=True) for one in (self.table, table)]
        return AgentSettings.model_validate({**given[0], **given[1]})


def _work(run: str | list[str], place: str) -> NodeFunction:
    try:
        return shell(run) if isinstance(run, str) else command(*run)
    except (TypeError, ValueError) as error:
        raise BlueprintInvalid(f"{place}: this command cannot run: {error}") from error


def _terms(table: OutputNode) -> Terms:
    match table:
        case CommentNode():
            return CommentTerms(
                on=table.comment, max_count=table.max_count, max_chars=table.max_chars
            )
        case LabelNode():
            return LabelTerms(allowed=table.label, on=table.on, max_count=table.max_count)
        case OpenIssueNode():
            return OpenIssueTerms(
                max_count=table.open_issue, max_chars=table.max_chars, labels=table.labels
            )
        case ReviewNode():
            return ReviewTerms(
                max_comments=table.max_comments, max_chars=table.max_chars, verdicts=table.review
            )
        case NotifyNode():
            return NotifyTerms(
                block=table.notify, max_count=table.max_count, max_chars=table.max_chars
            )
        case PullRequestNode():
            is_draft = table.pull_request == "draft"
            return PullRequestTerms(draft=is_draft, max_chars=table.max_chars)
        case _:
            assert_never(table)


def _steps(check: Steps, place: str) -> list[ValidationStep]:
    lines = {"check": check} if isinstance(check, str) else check
    return [ValidationStep(name, _work(line, place), place=place) for name, line in lines.items()]


def _node_tables(tables: Sequence[NodeTable]) -> Iterator[NodeTable]:
    """Yield all tables, those inside others too."""
    for table in tables:
        yield table
        if isinstance(table, ParallelNode):
            for lane in table.parallel:
                yield from _node_tables(lane)


def _invalid(source: MarkdownFile, error: ErrorDetails) -> BlueprintInvalid:
    """Return the first error of the model as one line."""
    kinds = [KINDS[part] for part in error["loc"] if part in KINDS]
    path = [part for part in error["loc"] if part not in KINDS]
    known = (kinds[-1] if kinds else BlueprintTable).model_fields
    # Behind the name of a field, pydantic names the kinds of value that it tried.
    depth = max((i + 1 for i, part in enumerate(path) if part in known), default=len(path))
    match error["type"]:
        case "extra_forbidden":
            said = f"there is no setting {path[-1]!r} here; known: {', '.join(known)}"
        case "missing":
            said = f"{path[-1]!r} is missing"
        case "model_type":
            said = f"a node is lines such as 'name: work', not {short_repr(error['input'])}"
        case _:
            wanted = re.sub(r"^\w+ should", "should", error["msg"])
            said = f"{path[depth - 1]} {wanted}, not {short_repr(error['input'])}"
    place = source.place(path, of_key=error["type"] == "extra_forbidden")
    return BlueprintInvalid(f"{place}: {_which_node(source.data, path)}{one_line(said, 400)}")


def _which_node(data: object, path: Sequence[str | int]) -> str:
    """Return the name of the innermost node on the path, such as `node 'tests': `."""
    found = ""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
            if isinstance(data, dict) and "name" in data:
                found = f"node {data['name']!r}: "
    return found
