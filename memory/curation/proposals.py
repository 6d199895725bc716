"""What a curator found in a run, and which of it may be proposed at all (pure).

A run's transcript holds the words of strangers: files, pages, tool output. So whatever tells
others what to do is only proposed when the person who asked said it in the request itself.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from contracts.agents import NATIVE
from memory.notes.types import (
    AGENT_WRITABLE_TYPES,
    BaseType,
    EntryContent,
    ExampleContent,
    NoteContent,
)
from memory.playbooks.render import neutralize
from memory.scope import Scope
from memory.words import tokenize

MAX_PROPOSALS_PER_RUN = 5
"""Notes and examples that may come of one run."""

_EVIDENCE = 8
"""Characters that a quote has at least."""

_ORDERS = re.compile(
    r"\b(?:(?:always|never|must(?:n\Wt| not)?|shall|should|have to|do not|don\Wt|ignore"
    r"|disregard|from now on|make sure|be sure to|skip)\b|remember(?: to\b|\s*:))",
    re.IGNORECASE,
)

_FRAME = frozenset(
    tokenize("the person user they prefer like want wish ask need use uses always must should")
)
"""Words that a rule may be told in though the request put it otherwise."""

_DENIALS = frozenset(
    tokenize("no not never none without cannot don doesn didn isn aren won mustn shouldn t")
)
"""One is as good as the other; `don't` is split at its mark."""


@dataclass(frozen=True, kw_only=True)
class RunTranscript:
    """One run as a curator reads it. `intent` holds the person's own words, `said` the rest.

    `intent_from` names the place that the request came from when no person said it; empty else.
    """

    run_id: str
    status: str
    intent: str = ""
    intent_source: str = ""
    agent: str = NATIVE
    viewer: Scope = field(default_factory=Scope)
    rating: int | None = None
    transcript: tuple[str, ...] = ()


class CurationFinding(BaseModel, frozen=True, extra="forbid"):
    """One thing that a model found."""

    type: BaseType
    scope: Literal["user", "company", "global"]
    text: str = Field(default="", max_length=2_000)
    input: str = Field(default="", max_length=8_000)
    output: str = Field(default="", max_length=8_000)
    confidence: int = Field(ge=0, le=100)
    evidence: str = Field(default="", max_length=2_000)
    contradicts: list[int] = Field(default=[], max_length=20)

    @model_validator(mode="after")
    def _has_its_words(self) -> "CurationFinding":
        pair = bool(self.input.strip()) and bool(self.output.strip())
        if self.type == "Example" and not pair:
            raise ValueError("an Example needs input and output")
        if self.type != "Example" and not self.text.strip():
            raise ValueError(f"a finding of type {self.type} needs text")
        return self

    @property
    def summary(self) -> str:
        """What it says, in one line."""
        return neutralize(self.text or f"{self.input} — {self.output}")


class CurationFindings(BaseModel, frozen=True, extra="forbid"):
    """A model's whole answer."""

    findings: list[CurationFinding] = Field(max_length=20)


@dataclass(frozen=True)
class RejectedFinding:
    """A finding that is not proposed to anybody, and why."""

    words: str
    why: str


def review_finding(
    finding: CurationFinding, story: RunTranscript
) -> EntryContent | RejectedFinding:
    """The finding as it may be proposed; Refused when the run does not bear it."""
    scope = _scope(finding, story)
    if scope is None:
        return RejectedFinding(
            finding.summary, f"the run had no {finding.scope} that it could be for"
        )
    content = _content(finding, scope, story)
    quote = finding.evidence if _is_quoted(finding.evidence, story.intent) else ""
    if finding.type not in AGENT_WRITABLE_TYPES and not _lies_in(finding.text, quote):
        why = f"a {finding.type} needs a quote from the request that holds all its words"
        return RejectedFinding(finding.summary, why)
    for part in _parts(content):
        order = _order_in(part)
        if order and not _lies_in(part, quote):
            why = f"it gives an order ({order!r}) that the request did not give"
            return RejectedFinding(finding.summary, why)
    return content


def remove_hidden_characters(text: str) -> str:
    """The text without signs that nobody sees, line by line."""
    return "\n".join(neutralize(line) for line in text.splitlines()).strip()


def _content(finding: CurationFinding, scope: Scope, story: RunTranscript) -> EntryContent:
    if finding.type == "Example":
        score = 80 if story.rating is None else story.rating
        return ExampleContent(
            input=remove_hidden_characters(finding.input),
            output=remove_hidden_characters(finding.output),
            score=score,
            scope=scope,
        )
    return NoteContent(text=remove_hidden_characters(finding.text), type=finding.type, scope=scope)


def _parts(content: EntryContent) -> tuple[str, ...]:
    if isinstance(content, NoteContent):
        return (content.text,)
    return (content.input, content.output)


def _order_in(text: str) -> str:
    found = _ORDERS.search(" ".join(text.split()))
    return found[0].lower() if found else ""


def _scope(finding: CurationFinding, story: RunTranscript) -> Scope | None:
    match finding.scope:
        case "global":
            return Scope()
        case "user":
            return Scope(user=story.viewer.user) if story.viewer.user else None
        case "company":
            return Scope(company=story.viewer.company) if story.viewer.company else None


def _is_quoted(quote: str, source: str) -> bool:
    wanted = " ".join(quote.lower().split()).strip("\"'.…")
    return len(wanted) >= _EVIDENCE and wanted in " ".join(source.lower().split())


def _lies_in(text: str, quote: str) -> bool:
    """Whether every word that carries its meaning is one of the quote's."""
    meant = _meaning(text)
    return bool(meant) and meant <= _meaning(quote)


def _meaning(text: str) -> frozenset[str]:
    words = frozenset(tokenize(text)) - _FRAME
    return words - _DENIALS | {"not"} if words & _DENIALS else words
