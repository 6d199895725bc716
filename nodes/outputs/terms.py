"""What an output node permits: which kind of output, where, how often and how long."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nodes.field_checks import FieldChecks, is_list

Target = Literal["issue", "pull_request"]
"""`issue` is the one that the run was started for; `pull_request` is that one, or the run's own."""
TARGETS: tuple[Target, ...] = ("issue", "pull_request")

Verdict = Literal["comment", "request_changes", "approve"]
VERDICTS: tuple[Verdict, ...] = ("comment", "request_changes", "approve")

BLOCK = r"[a-z0-9-]+/[a-z0-9-]+"
"""Type and name of a block of Prefect."""

DEFAULT_CHARS = 4_000
MOST_CHARS = 20_000
MOST_OUTPUTS = 20
LONGEST_LABEL = 50
"""Characters of a label; GitHub takes no more."""
TITLE_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class CommentTerms:
    """Comments on one issue or pull request."""

    on: Target
    max_count: int
    max_chars: int

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        _check_target(checks, self.on)
        _check_bounds(checks, self.max_count, self.max_chars)


@dataclass(frozen=True, kw_only=True)
class LabelTerms:
    """Labels of this list, put on one issue or pull request."""

    allowed: Sequence[str]
    on: Target
    max_count: int

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        _check_target(checks, self.on)
        if is_list(self.allowed) and not self.allowed:
            raise checks.invalid("has no label in allowed: name those that an agent may choose")
        object.__setattr__(self, "allowed", check_labels(checks, "allowed", self.allowed))
        _check_count(checks, "max_count", self.max_count, MOST_OUTPUTS)


@dataclass(frozen=True, kw_only=True)
class OpenIssueTerms:
    """New issues; each gets all `labels`."""

    max_count: int
    max_chars: int
    labels: Sequence[str]

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        object.__setattr__(self, "labels", check_labels(checks, "labels", self.labels))
        _check_bounds(checks, self.max_count, self.max_chars)


@dataclass(frozen=True, kw_only=True)
class ReviewTerms:
    """One review of a pull request, with comments on lines of its diff."""

    max_comments: int
    max_chars: int
    verdicts: Sequence[Verdict]

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        _check_bounds(checks, self.max_comments, self.max_chars, count="max_comments")
        checks.each("verdicts", self.verdicts, str, "verdicts")
        if not self.verdicts or not set(self.verdicts) <= set(VERDICTS):
            wanted = f"a list of some of {', '.join(VERDICTS)}"
            raise checks.wrong("verdicts", self.verdicts, wanted)
        object.__setattr__(self, "verdicts", tuple(self.verdicts))


@dataclass(frozen=True, kw_only=True)
class NotifyTerms:
    """Notifications through one of Prefect's notification blocks, such as `slack-webhook/team`."""

    block: str
    max_count: int
    max_chars: int

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        if not isinstance(self.block, str) or not re.fullmatch(BLOCK, self.block):
            raise checks.wrong("block", self.block, "TYPE/NAME, such as 'slack-webhook/team'")
        _check_bounds(checks, self.max_count, self.max_chars)


@dataclass(frozen=True, kw_only=True)
class PullRequestTerms:
    """The pull request of the run's work, which is pushed for it."""

    draft: bool
    max_chars: int

    def check(self, checks: FieldChecks) -> None:
        """Refuse values that nothing could fit."""
        checks.flag("draft", self.draft)
        _check_count(checks, "max_chars", self.max_chars, MOST_CHARS)


Terms = CommentTerms | LabelTerms | OpenIssueTerms | ReviewTerms | NotifyTerms | PullRequestTerms


def check_labels(checks: FieldChecks, field: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels; refuse what is no list of names that forges take as labels."""
    checks.each(field, labels, str, "names of labels")
    for label in labels:
        is_name = label.strip() == label and label.isprintable() and "," not in label
        if not is_name or not 0 < len(label) <= LONGEST_LABEL:
            raise checks.invalid(
                f"has the label {label!r} in {field}: give 1 to {LONGEST_LABEL} characters on one "
                "line, without a comma and without spaces at the ends"
            )
    return tuple(labels)


def _check_target(checks: FieldChecks, on: object) -> None:
    if on not in TARGETS:
        raise checks.wrong("on", on, f"one of {', '.join(TARGETS)}")


def _check_bounds(
    checks: FieldChecks, most: object, chars: object, *, count: str = "max_count"
) -> None:
    _check_count(checks, count, most, MOST_OUTPUTS)
    _check_count(checks, "max_chars", chars, MOST_CHARS)


def _check_count(checks: FieldChecks, field: str, value: object, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise checks.wrong(field, value, f"a whole number from 1 to {most}")
