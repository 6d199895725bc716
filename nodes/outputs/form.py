"""The form in which an agent proposes outputs, as its prompt shows it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, assert_never

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.run import RunContext
from nodes.outputs.terms import (
    CommentTerms,
    LabelTerms,
    NotifyTerms,
    OpenIssueTerms,
    PullRequestTerms,
    ReviewTerms,
    Target,
    Terms,
)
from nodes.types import MakePrompt, Output

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
    trim_blocks=True,
    lstrip_blocks=True,
)
_PLACES: dict[Target, str] = {"issue": "the issue", "pull_request": "the pull request"}


class _Entry(NamedTuple):
    name: str
    description: str
    permits: str
    example: str


@dataclass(frozen=True)
class ProposingPrompt:
    """The prompt of an agent that may propose outputs: its own prompt, and the form below it."""

    prompt: MakePrompt
    outputs: tuple[Output, ...]

    def __call__(self, ctx: RunContext) -> str:
        """Return the prompt; what its own part returns instead of text is returned unchanged."""
        own = self.prompt(ctx)
        return f"{own.rstrip()}\n\n{form(self.outputs)}" if isinstance(own, str) else own


def form(outputs: Sequence[Output]) -> str:
    """Return what an agent is told about the outputs that it may propose."""
    entries = [
        _Entry(one.name, one.description, permits(one.terms), _example(one.terms))
        for one in outputs
    ]
    return _TEMPLATES.get_template("form.md.j2").render(outputs=entries).strip() + "\n"


def permits(terms: Terms) -> str:
    """Return one line that says what the terms permit."""
    match terms:
        case CommentTerms():
            many = _many("comment", terms.max_count)
            return f"{many} on {_PLACES[terms.on]}, {_long(terms.max_chars)}"
        case LabelTerms():
            names = ", ".join(terms.allowed)
            return f"{_many('label', terms.max_count)} for {_PLACES[terms.on]}, of these: {names}"
        case OpenIssueTerms():
            return f"{_many('new issue', terms.max_count)}, {_long(terms.max_chars)}"
        case ReviewTerms():
            lines = f"{_many('comment', terms.max_comments)} on lines of the diff"
            said = f"verdict {' or '.join(terms.verdicts)}"
            return f"a review of the pull request, {said}; {lines}; {_long(terms.max_chars)} each"
        case NotifyTerms():
            many = _many("notification", terms.max_count)
            return f"{many} through {terms.block}, plain text, {_long(terms.max_chars)}"
        case PullRequestTerms():
            return f"title and text of the pull request for your changes, {_long(terms.max_chars)}"
        case _:
            assert_never(terms)


def _example(terms: Terms) -> str:
    match terms:
        case CommentTerms():
            one: dict[str, object] = {"body": "…"}
        case LabelTerms():
            one = {"add": [terms.allowed[0]]}
        case OpenIssueTerms() | PullRequestTerms():
            one = {"title": "…", "body": "…"}
        case ReviewTerms():
            line = {"path": "src/app.py", "line": 12, "body": "…"}
            one = {"verdict": terms.verdicts[0], "body": "…", "comments": [line]}
        case NotifyTerms():
            one = {"subject": "…", "body": "…"}
        case _:
            assert_never(terms)
    single = LabelTerms | ReviewTerms | PullRequestTerms
    many = not isinstance(terms, single) and terms.max_count > 1
    return json.dumps([one] if many else one, ensure_ascii=False)


def _many(what: str, most: int) -> str:
    return f"at most {most} {what}{'' if most == 1 else 's'}"


def _long(chars: int) -> str:
    return f"at most {chars} characters"
