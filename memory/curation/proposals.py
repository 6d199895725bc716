"""Findings of the curator model, and the rules for proposing one as a note or example (pure).

A run's transcript holds other people's text: files, web pages, tool output. So everything waits for
a person, and a rule for agents is only proposed as the sentence of the request that states it.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field, model_validator

from contracts.agents import NATIVE
from memory.notes.content import searchable_text
from memory.notes.near_duplicates import NearDuplicate
from memory.notes.types import (
    AGENT_WRITABLE_TYPES,
    BaseType,
    EntryContent,
    ExampleContent,
    NoteContent,
    ReviewFlag,
)
from memory.playbooks.render import neutralize
from memory.scope import Scope

MAX_PROPOSALS_PER_RUN = 5
"""Notes and examples that one run may lead to."""

_MIN_QUOTE_LENGTH = 8
_ABBREVIATION = 3
"""Letters before a full stop that may be an abbreviation."""

_SENTENCE_END = re.compile(r"[.!]+[\"'\u201d\u2019)]*\s+|[\u3002\uff01\u0964]\s*")
_DEFAULT_SCORE = 80

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


class ReviewedFinding(NamedTuple):
    """A finding as it may be proposed. `evidence` is a literal quote from the run, or empty."""

    content: EntryContent
    evidence: str


def review_finding(
    finding: CurationFinding, run: RunTranscript
) -> ReviewedFinding | RejectedFinding:
    """Return the finding as it may be proposed, or why it may not."""
    scope = _scope(finding, run)
    if scope is None:
        return RejectedFinding(finding.summary, f"the run had no {finding.scope}")
    # A file of the repository could dictate a rule to the model; only the request cannot be
    # forged. So the rule is the person's own sentence, whatever the model made of it.
    sentence = quoted_sentence(finding.evidence, run.intent)
    if finding.type not in AGENT_WRITABLE_TYPES:
        if not sentence:
            reason = f"a {finding.type} needs a literal quote from the request"
            return RejectedFinding(finding.summary, reason)
        text = remove_hidden_characters(sentence)
        return ReviewedFinding(NoteContent(text=text, type=finding.type, scope=scope), sentence)
    evidence = sentence or _quoted(finding.evidence, "\n".join(run.transcript))
    if finding.type != "Example":
        text = remove_hidden_characters(finding.text)
        return ReviewedFinding(NoteContent(text=text, type=finding.type, scope=scope), evidence)
    score = _DEFAULT_SCORE if run.rating is None else run.rating
    asked, answered = map(remove_hidden_characters, (finding.input, finding.output))
    content = ExampleContent(input=asked, output=answered, score=score, scope=scope)
    return ReviewedFinding(content, evidence)


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


def quoted_sentence(quote: str, request: str) -> str:
    """Return the whole sentences of the request that hold the quote; empty if it has no such text.

    Where a sentence may go on it is not cut, so that no "never" or "unless" in it gets lost: line
    breaks, colons and question marks end none, nor does the full stop of an abbreviation.
    """
    flat = " ".join(request.split())
    found = _quoted(quote, flat)
    if not found:
        return ""
    start = flat.index(found)
    ends = [match.end() for match in _SENTENCE_END.finditer(flat) if _is_end(flat, match)]
    first = max((end for end in ends if end <= start), default=0)
    last = min((end for end in ends if end >= start + len(found)), default=len(flat))
    return flat[first:last].strip()


def _is_end(text: str, match: "re.Match[str]") -> bool:
    word = text[: match.start()].rsplit(" ", 1)[-1]
    is_abbreviation = match[0].startswith(".") and (len(word) <= _ABBREVIATION or "." in word)
    return not is_abbreviation and not text[match.end() :][:1].islower()


def _quoted(quote: str, source: str) -> str:
    """Return the quote as it stands in the source, in any case; empty if it does not."""
    # Models often put a quote into quotation marks, or end it with an ellipsis.
    wanted = " ".join(quote.lower().split()).strip("\"'.…")
    flat = " ".join(source.split())
    at = flat.lower().find(wanted) if len(wanted) >= _MIN_QUOTE_LENGTH else -1
    return flat[at : at + len(wanted)] if at >= 0 else ""
