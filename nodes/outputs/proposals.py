"""Reads what an agent proposes in its answer, and holds it against the terms of an output node.

The answer ends with a block of JSON that has the names of output nodes as keys. It is read anew
wherever it is needed: the same answer and terms always give the same actions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar, assert_never

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.run import NodeResult, RunContext
from nodes.outputs.inert import FORGE_CAP, inert_line, inert_markdown, inert_text
from nodes.outputs.terms import (
    TITLE_CHARS,
    CommentTerms,
    LabelTerms,
    NotifyTerms,
    OpenIssueTerms,
    PullRequestTerms,
    ReviewTerms,
    Target,
    Terms,
    Verdict,
)
from nodes.text import one_line
from nodes.types import Output

FENCE = "```outputs"
_MOST_READ = 100
"""Proposals of one node that are looked at; a longer list is refused."""

_Text = Annotated[str, Field(min_length=1)]
_P = TypeVar("_P", bound="_Proposal")


class _Proposal(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ProposedComment(_Proposal):
    body: _Text


class ProposedLabels(_Proposal):
    add: Annotated[list[_Text], Field(min_length=1, max_length=_MOST_READ)]


class ProposedIssue(_Proposal):
    """An issue or a pull request."""

    title: _Text
    body: _Text


class ProposedLineComment(_Proposal):
    path: _Text
    line: Annotated[int, Field(ge=1)]
    body: _Text


class ProposedReview(_Proposal):
    body: _Text
    verdict: Verdict = "comment"
    comments: Annotated[list[ProposedLineComment], Field(max_length=_MOST_READ)] = []


class ProposedNotification(_Proposal):
    subject: _Text
    body: _Text


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment to write. Its body is inert."""

    on: Target
    body: str

    def __str__(self) -> str:
        return one_line(self.body)


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Labels to put on an issue or pull request."""

    on: Target
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, kw_only=True)
class Issue:
    """An issue to open. Title and body are inert."""

    title: str
    body: str
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return self.title


@dataclass(frozen=True, kw_only=True)
class LineComment:
    """A comment on a line of the new version of a file. Its body is inert."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Review:
    """A review to write. Its texts are inert."""

    verdict: Verdict
    body: str
    lines: tuple[LineComment, ...]

    def __str__(self) -> str:
        return one_line(f"{self.verdict}, {len(self.lines)} on lines: {one_line(self.body)}")


@dataclass(frozen=True, kw_only=True)
class Notification:
    """A notification to send through a block. Its texts are inert."""

    block: str
    subject: str
    body: str

    def __str__(self) -> str:
        return f"{self.block}: {self.subject}"


@dataclass(frozen=True, kw_only=True)
class Pull:
    """The pull request to open for the run's work. Title and body are inert."""

    title: str
    body: str
    draft: bool

    def __str__(self) -> str:
        return self.title


Action = Comment | Labels | Issue | Review | Notification | Pull


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A proposal that the terms do not permit: why, and what it was, in one line."""

    reason: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.reason}{': ' if self.about else ''}{self.about}"


Proposed = Action | Refusal


def read_proposals(answer: str, name: str, terms: Terms) -> tuple[Proposed, ...]:
    """Return the actions that an agent's answer proposes for the output node `name`.

    What goes beyond the terms is a refusal in its place. Text is cut to its limit and made inert.
    """
    try:
        found = _block(answer).get(name)
    except ValueError as error:
        return (
            Refusal(reason=f"the block '{FENCE[3:]}' is no JSON object: {one_line(str(error))}"),
        )
    if found is None:
        return ()
    given = found if isinstance(found, list) else [found]
    if len(given) > _MOST_READ:
        return (Refusal(reason=f"{len(given)} proposals at once"),)
    return _held_against(terms, given)


def _held_against(terms: Terms, given: Sequence[object]) -> tuple[Proposed, ...]:
    match terms:
        case CommentTerms():
            found = _within(terms.max_count, [_comment(one, terms) for one in given])
        case LabelTerms():
            found = _labels(given, terms)
        case OpenIssueTerms():
            found = _within(terms.max_count, [_issue(one, terms) for one in given])
        case ReviewTerms():
            found = _reviews(given, terms)
        case NotifyTerms():
            found = _within(terms.max_count, [_notification(one, terms) for one in given])
        case PullRequestTerms():
            found = _within(1, [_pull(one, terms) for one in given])
        case _:
            assert_never(terms)
    return found


def proposals(node: Output, results: Mapping[str, NodeResult]) -> tuple[Proposed, ...]:
    """Return what the agent of an output node proposed; nothing if it has no result."""
    result = results.get(node.by or "")
    return () if result is None else read_proposals(result.output, node.name, node.terms)


def proposed_result(node: Output, ctx: RunContext) -> NodeResult:
    """Return the result of an output node: what will be done, and what is refused."""
    found = proposals(node, ctx.results)
    refused = [one for one in found if isinstance(one, Refusal)]
    accepted = [one for one in found if not isinstance(one, Refusal)]
    lines = [f"proposed: {one}" for one in accepted] + [f"refused: {one}" for one in refused]
    output = "\n".join(lines)
    if not accepted and node.required:
        why = f": {refused[0]}" if refused else ""
        error = f"agent {node.by!r} proposed nothing that is allowed{why}"
        return NodeResult.failure(error, output)
    if not found:
        return NodeResult.skipped(f"agent {node.by!r} proposed nothing")
    remark = f"{len(refused)} refused: {refused[0]}" if refused else ""
    return NodeResult(status="success", output=output, remark=remark)


def _block(answer: str) -> Mapping[str, object]:
    """Return the last block of outputs in the answer; empty without one.

    Raises:
        ValueError: it is not JSON.
    """
    lines = answer.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.strip() == FENCE]
    if not starts:
        return {}
    text = "".join(lines[starts[-1] + 1 :]).lstrip()
    try:
        # It ends where the JSON ends: a text in it may have fences of its own.
        found, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it begins with no {")
    return found


def _within(most: int, proposed: Sequence[Proposed]) -> tuple[Proposed, ...]:
    """Refuse what comes after the first `most` actions."""
    kept: list[Proposed] = []
    count = 0
    for one in proposed:
        count += not isinstance(one, Refusal)
        is_over = not isinstance(one, Refusal) and count > most
        kept.append(Refusal(reason=f"more than {most}", about=str(one)) if is_over else one)
    return tuple(kept)


def _comment(given: object, terms: CommentTerms) -> Proposed:
    made = _parsed(ProposedComment, given)
    if isinstance(made, Refusal):
        return made
    body = _body(made.body, terms.max_chars)
    return body if isinstance(body, Refusal) else Comment(on=terms.on, body=body)


def _labels(given: Sequence[object], terms: LabelTerms) -> tuple[Proposed, ...]:
    asked: dict[str, None] = {}
    refused: list[Proposed] = []
    for one in given:
        made = _parsed(ProposedLabels, one)
        if isinstance(made, Refusal):
            refused.append(made)
        else:
            asked |= dict.fromkeys(made.add)
    good = [label for label in asked if label in terms.allowed]
    refused += [
        Refusal(reason="the blueprint does not allow this label", about=one_line(label))
        for label in asked
        if label not in terms.allowed
    ]
    refused += [
        Refusal(reason=f"more than {terms.max_count}", about=label)
        for label in good[terms.max_count :]
    ]
    names = tuple(good[: terms.max_count])
    return (*([Labels(on=terms.on, names=names)] if names else []), *refused)


def _issue(given: object, terms: OpenIssueTerms) -> Proposed:
    texts = _titled(given, terms.max_chars)
    if isinstance(texts, Refusal):
        return texts
    return Issue(title=texts.title, body=texts.body, labels=tuple(terms.labels))


def _pull(given: object, terms: PullRequestTerms) -> Proposed:
    texts = _titled(given, terms.max_chars)
    if isinstance(texts, Refusal):
        return texts
    return Pull(title=texts.title, body=texts.body, draft=terms.draft)


class _Titled(NamedTuple):
    title: str
    body: str


def _titled(given: object, max_chars: int) -> _Titled | Refusal:
    made = _parsed(ProposedIssue, given)
    if isinstance(made, Refusal):
        return made
    title, body = _title(made.title), _body(made.body, max_chars)
    if isinstance(title, Refusal):
        return title
    return body if isinstance(body, Refusal) else _Titled(title, body)


def _reviews(given: Sequence[object], terms: ReviewTerms) -> tuple[Proposed, ...]:
    """Return the first review, and what of it and of others is refused."""
    made = _parsed(ProposedReview, given[0]) if given else Refusal(reason="the list is empty")
    if isinstance(made, Refusal):
        return (made,)
    if made.verdict not in terms.verdicts:
        reason = f"the blueprint does not allow the verdict {made.verdict!r}"
        return (Refusal(reason=reason, about=one_line(made.body)),)
    body = _body(made.body, terms.max_chars)
    if isinstance(body, Refusal):
        return (body,)
    found = [_line_comment(one, terms) for one in made.comments]
    lines = [one for one in found if not isinstance(one, Refusal)]
    refused = [one for one in found if isinstance(one, Refusal)]
    refused += [
        Refusal(reason=f"more than {terms.max_comments}", about=f"{one.path}:{one.line}")
        for one in lines[terms.max_comments :]
    ]
    refused += [Refusal(reason="more than 1")] * (len(given) - 1)
    kept = tuple(lines[: terms.max_comments])
    return (Review(verdict=made.verdict, body=body, lines=kept), *refused)


def _line_comment(given: ProposedLineComment, terms: ReviewTerms) -> LineComment | Refusal:
    body = _body(given.body, terms.max_chars)
    if isinstance(body, Refusal):
        return body
    return LineComment(path=given.path.removeprefix("./"), line=given.line, body=body)


def _notification(given: object, terms: NotifyTerms) -> Proposed:
    made = _parsed(ProposedNotification, given)
    if isinstance(made, Refusal):
        return made
    subject = _title(made.subject)
    if isinstance(subject, Refusal):
        return subject
    body = inert_text(made.body[: terms.max_chars]).strip()
    if not body:
        return Refusal(reason="the text is empty", about=subject)
    return Notification(block=terms.block, subject=subject, body=body)


def _title(text: str) -> str | Refusal:
    line = inert_line(text[: 10 * TITLE_CHARS])
    short = line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"
    return short or Refusal(reason="the title is empty")


def _body(text: str, limit: int) -> str | Refusal:
    body = inert_markdown(text[:limit])
    if not body:
        return Refusal(reason="the text is empty")
    if len(body) > FORGE_CAP:
        return Refusal(reason="too long for a forge once it is harmless", about=one_line(text))
    cut = f"\n\n(Cut: the blueprint allows {limit} characters.)" if len(text) > limit else ""
    return f"{body}{cut}"


def _parsed(model: type[_P], given: object) -> _P | Refusal:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        return Refusal(reason=one_line(reason), about=one_line(json.dumps(given)))
