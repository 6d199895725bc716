"""Decides again what was decided, by the policy of that time, and compares the outcomes. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contracts.json import Json, canonical_json
from contracts.tool import Decision, Denied
from policy.log.events import Event
from policy.log.history import History
from policy.log.taint import DataFlow, data_flow

Decide = Callable[[Mapping[str, Json]], Decision]
"""Decides about the question of a decision event, as its version of the policy does.

Raises:
    ValueError: it is no question for this policy.
"""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that does not come out as it is written."""

    event: str
    what: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.event}: {self.what} was {self.was}, is {self.now}"


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What was looked at again, and every difference."""

    decisions: int
    entities: int
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """True when everything came out as it is written."""
        return not self.differences


def replay(history: History, policies: Mapping[str, Decide]) -> ReplayResult:
    """Go through the history in its order: ask each question again, follow each label again.

    A decision by a policy that is not among `policies` is a difference: nobody can say that it
    was right. So is an entity whose own tags are fewer than those of what it was made from.
    """
    flow = data_flow(history)
    decisions = [event for event in history.in_order() if event.kind == "decision"]
    found = [d for event in decisions for d in _decision(event, policies)]
    found += _state(flow)
    return ReplayResult(
        decisions=len(decisions), entities=len(history.entities), differences=tuple(found)
    )


def _decision(event: Event, policies: Mapping[str, Decide]) -> Iterator[Difference]:
    version, question = str(event.body.get("policy")), event.body.get("question")
    decide = policies.get(version)
    if decide is None:
        known = ", ".join(sorted(policies)) or "none"
        yield _differs(event, "the policy", version, f"unknown here; known: {known}")
        return
    was = (_text(event, "verdict"), _text(event, "rule"), _text(event, "reason"))
    try:
        now = _words(decide(question if isinstance(question, Mapping) else {}))
    except ValueError as error:
        yield _differs(event, "the question", canonical_json(question), f"no question: {error}")
        return
    for what, before, after in zip(
        ("the verdict", "the rule", "the reason"), was, now, strict=True
    ):
        if before != after:
            yield _differs(event, what, repr(before), repr(after))


def _state(flow: DataFlow) -> Iterator[Difference]:
    for name, entity in flow.history.entities.items():
        label = flow.label(name)
        if not entity.label.covers(label):
            missing = sorted((label.caps | label.taint) - (entity.label.caps | entity.label.taint))
            maker = next(iter(flow.made_by.get(name, ())), None)
            yield Difference(
                event=maker.id if maker is not None else name,
                what=f"the label of {entity.origin!r}",
                was=", ".join(sorted(entity.label.caps | entity.label.taint)) or "clean",
                now=f"also {', '.join(missing)}",
            )


def _words(decision: Decision) -> tuple[str, str, str]:
    match decision:
        case Denied() as denied:
            return ("denied", denied.rule, denied.reason)
        case _:
            return ("allowed", "", "")


def _text(event: Event, name: str) -> str:
    return str(event.body.get(name) or "")


def _differs(event: Event, what: str, was: str, now: str) -> Difference:
    return Difference(event=event.id, what=what, was=was, now=now)
