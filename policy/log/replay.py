"""Replays a history: makes each decision and each label again, and compares the results."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contracts.json import Json, canonical_json
from contracts.tool import Decision, Denied
from policy.log.data_flow import DataFlow, data_flow
from policy.log.events import Event, History

Decide = Callable[[Mapping[str, Json]], Decision]
"""Decides again from the recorded inputs of a decision, by one version of the policy.

Raises:
    ValueError: the inputs are not those of this policy.
"""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A recorded value that the replay does not confirm."""

    event: str
    what: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.event}: {self.what} was {self.was}, is {self.now}"


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The number of decisions and entities that were checked, and every difference."""

    decisions: int
    entities: int
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """True if there are no differences."""
        return not self.differences


def replay(history: History, policies: Mapping[str, Decide]) -> ReplayResult:
    """Repeat every decision with its version of the policy, and propagate every label again.

    A decision by a version that `policies` lacks is a difference, because it cannot be confirmed.
    So is an entity with fewer tags than the entities it was made from. Reasons are not compared:
    they are text for people, and may be worded better in a later release.
    """
    flow = data_flow(history)
    decisions = [event for event in history.in_order() if event.kind == "decision"]
    differences = [one for event in decisions for one in _decision_differences(event, policies)]
    differences += _label_differences(flow)
    return ReplayResult(
        decisions=len(decisions), entities=len(history.entities), differences=tuple(differences)
    )


def _decision_differences(event: Event, policies: Mapping[str, Decide]) -> Iterator[Difference]:
    version, inputs = str(event.body.get("policy")), event.body.get("question")
    decide = policies.get(version)
    if decide is None:
        known = ", ".join(sorted(policies)) or "none"
        yield _difference(event, "the policy", version, f"unknown to this version; known: {known}")
        return
    try:
        decision = decide(inputs if isinstance(inputs, Mapping) else {})
    except ValueError as error:
        yield _difference(event, "the question", canonical_json(inputs), f"invalid: {error}")
        return
    now = {"verdict": "allowed", "rule": ""}
    if isinstance(decision, Denied):
        now = {"verdict": "denied", "rule": decision.rule}
    for field, value in now.items():
        recorded = str(event.body.get(field) or "")
        if recorded != value:
            yield _difference(event, f"the {field}", repr(recorded), repr(value))


def _label_differences(flow: DataFlow) -> Iterator[Difference]:
    for name, entity in flow.history.entities.items():
        label = flow.label(name)
        if not entity.label.covers(label):
            own = entity.label.caps | entity.label.taint
            maker = next(iter(flow.made_by.get(name, ())), None)
            yield Difference(
                event=maker.id if maker is not None else name,
                what=f"the label of {entity.origin!r}",
                was=", ".join(sorted(own)) or "clean",
                now=f"also {', '.join(sorted((label.caps | label.taint) - own))}",
            )


def _difference(event: Event, what: str, was: str, now: str) -> Difference:
    return Difference(event=event.id, what=what, was=was, now=now)
