"""Findings of the curator model, and the rules for proposing one as a note or example (pure).

A run's transcript holds other people's text: files, web pages, tool output. So a finding that tells
agents what to do is only proposed if the person who started the run said so in the request.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from contracts.agents import NATIVE
from memory.notes.content import searchable_text
from memory.notes.note_vectors import NearDuplicate
from memory.notes.types import (
    AGENT_WRITABLE_TYPES,
    BaseType,
    EntryContent,
    ExampleContent,
    NoteContent,
    ReviewFlag,
)
from memory.playbooks.bm25 import tokenize
from memory.playbooks.render import neutralize
from memory.scope import Scope

MAX_PROPOSALS_PER_RUN = 5
"""Notes and examples that one run may lead to."""

_MIN_QUOTE_LENGTH = 8
_DEFAULT_SCORE = 80

# `\W` stands for any apostrophe: a typographic one must not hide a "don't".
_INSTRUCTION = re.compile(
    r"\b(?:(?:always|never|must(?:n\Wt| not)?|shall|should|have to|do not|don\Wt|ignore"
    r"|disregard|from now on|make sure|be sure to|skip)\b|remember(?: to\b|\s*:))",
    re.IGNORECASE,
)

_FRAME_WORDS = frozenset(
    tokenize("the person user they prefer like want wish ask need use uses always must should")
)
"""Words that a finding may use although the request did not: they frame a rule."""

_NEGATIONS = frozenset(
    tokenize("no not never none without cannot don doesn didn isn aren won mustn shouldn t")
)
"""Words that count as the same; the tokenizer splits `don't` at its apostrophe."""


_NEGATION = re.compile(
    r"\b(no|not|never|none|without|cannot|can't|don't|doesn't|isn't|aren't|won't)\b"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class RunTranscript:
    """A run as the curator reads it. `intent` is the request, `transcript` everything else.

    `intent_source` names where the request came from if no person typed it.
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
    """One finding of the model."""

    type: BaseType
    scope: Literal["user", "company", "global"]
    text: str = Field(default="", max_length=2_000)
    input: str = Field(default="", max_length=8_000)
    output: str = Field(default="", max_length=8_000)
    confidence: int = Field(ge=0, le=100)
    evidence: str = Field(default="", max_length=2_000)
    contradicts: list[int] = Field(default=[], max_length=20)

    @model_validator(mode="after")
    def _has_text(self) -> "CurationFinding":
        is_pair = bool(self.input.strip()) and bool(self.output.strip())
        if self.type == "Example" and not is_pair:
            raise ValueError("an Example needs input and output")
        if self.type != "Example" and not self.text.strip():
            raise ValueError(f"a finding of type {self.type} needs text")
        return self

    @property
    def summary(self) -> str:
        """Its text in one line."""
        return neutralize(self.text or f"{self.input} — {self.output}")


class CurationFindings(BaseModel, frozen=True, extra="forbid"):
    """The model's whole answer."""

    findings: list[CurationFinding] = Field(max_length=20)


@dataclass(frozen=True)
class RejectedFinding:
    """A finding that is not proposed, and why. Stored as JSON under these names."""

    words: str
    why: str


def review_finding(finding: CurationFinding, run: RunTranscript) -> EntryContent | RejectedFinding:
    """Return the finding as it may be proposed, or why it may not."""
    scope = _scope(finding, run)
    if scope is None:
        return RejectedFinding(finding.summary, f"the run had no {finding.scope}")
    quote = finding.evidence if _is_quoted(finding.evidence, run.intent) else ""
    # A file of the repository could dictate a rule to the model; only the request cannot be
    # forged.
    if finding.type not in AGENT_WRITABLE_TYPES and not _says_only(finding.text, quote):
        reason = f"a {finding.type} needs a quote from the request that has all its words"
        return RejectedFinding(finding.summary, reason)
    text = remove_hidden_characters(finding.text)
    pair = [remove_hidden_characters(part) for part in (finding.input, finding.output)]
    for part in pair if finding.type == "Example" else [text]:
        found = _INSTRUCTION.search(" ".join(part.split()))
        if found and not _says_only(part, quote):
            reason = f"it gives an order ({found[0].lower()!r}) that the request did not give"
            return RejectedFinding(finding.summary, reason)
    if finding.type != "Example":
        return NoteContent(text=text, type=finding.type, scope=scope)
    score = _DEFAULT_SCORE if run.rating is None else run.rating
    return ExampleContent(input=pair[0], output=pair[1], score=score, scope=scope)


def remove_hidden_characters(text: str) -> str:
    """Return the text without invisible characters and without fences, line by line."""
    return "\n".join(neutralize(line) for line in text.splitlines()).strip()


def review_flag(content: EntryContent, other: NearDuplicate) -> ReviewFlag:
    """Return the flag that tells a reviewer how `content` and the near duplicate relate."""
    if contradicts(searchable_text(content), searchable_text(other.entry)):
        return ReviewFlag("contradicts", other.entry.id, "they differ in a negation or a number")
    why = f"says nearly the same (distance {other.distance:.2f})"
    return ReviewFlag("near", other.entry.id, why)


def contradicts(one: str, other: str) -> bool:
    """Return whether two similar texts differ in a negation or in a number."""
    first, second = one.lower(), other.lower()
    if bool(_NEGATION.search(first)) != bool(_NEGATION.search(second)):
        return True
    numbers = [{word for word in _WORD.findall(text) if word.isdigit()} for text in (first, second)]
    return all(numbers) and numbers[0] != numbers[1]


def _scope(finding: CurationFinding, run: RunTranscript) -> Scope | None:
    match finding.scope:
        case "global":
            return Scope()
        case "user":
            return Scope(user=run.viewer.user) if run.viewer.user else None
        case "company":
            return Scope(company=run.viewer.company) if run.viewer.company else None


def _is_quoted(quote: str, source: str) -> bool:
    # Models often put a quote into quotation marks, or end it with an ellipsis.
    wanted = " ".join(quote.lower().split()).strip("\"'.…")
    return len(wanted) >= _MIN_QUOTE_LENGTH and wanted in " ".join(source.lower().split())


def _says_only(text: str, quote: str) -> bool:
    """Return True if the quote has every meaningful word of the text."""
    words = _meaningful_words(text)
    return bool(words) and words <= _meaningful_words(quote)


def _meaningful_words(text: str) -> frozenset[str]:
    words = frozenset(tokenize(text)) - _FRAME_WORDS
    return words - _NEGATIONS | {"not"} if words & _NEGATIONS else words
