"""Properties of every plan: untrusted bytes change no decision, and labels only grow."""

import json
import random

from contracts.entity import Entity, Label, join_labels
from contracts.json import Json, canonical_json
from contracts.tool import Denied
from policy.plan.decision_record import redecide
from policy.types import Plan
from tests.support.random_plans import BOTH, CLEAN, PII, WEB, random_plan, run, shaped

PLANS = 1_000
ALL = frozenset({"READ", "WRITE", "SEND", "release:pii"})
NAMED = frozenset({"ann", "carl"})
SOME = frozenset({"READ", "WRITE", "SEND"})


def inputs(untrusted: random.Random, choice: random.Random | None = None) -> dict[str, Entity]:
    """Return inputs of every kind, with random bytes in the untrusted ones.

    With `choice`, about half of the untrusted values are one that the prompt names.
    """

    def labelled(label: Label, value: Json) -> Entity:
        return Entity(content=value, label=label, origin="input")

    def bytes_() -> Json:
        if choice is not None and choice.random() < 0.5:
            return choice.choice(sorted(NAMED))
        return untrusted.choice([untrusted.randbytes(4).hex(), "bob", "", 0, True, None])

    return {
        "input.clean": labelled(CLEAN, shaped(lambda: "bob")),
        "input.pii": labelled(PII, shaped(lambda: "bob")),
        "input.web": labelled(WEB, shaped(bytes_)),
        "input.both": labelled(BOTH, shaped(bytes_)),
        "place.shelf": labelled(CLEAN, "shelf"),
    }


def plans() -> list[tuple[Plan, frozenset[str]]]:
    drawn = random.Random(11)  # noqa: S311 - a repeatable draw, not a secret
    return [(random_plan(drawn), drawn.choice([ALL, SOME])) for _ in range(PLANS)]


def test_rewriting_untrusted_bytes_changes_no_decision_and_no_steering_argument() -> None:
    both = {"allowed": 0, "denied": 0}
    for number, (plan, grants) in enumerate(plans()):
        first, second = (
            run(plan, inputs(random.Random(f"{number} {n}")), grants)  # noqa: S311
            for n in range(2)
        )
        assert first.decisions == second.decisions, plan
        assert first.done == second.done, plan
        for decision in first.decisions:
            both[str(decision[1])] += 1
    assert min(both.values()) > PLANS / 2


def test_untrusted_text_chooses_among_named_values_and_decides_nothing_else() -> None:
    chosen = 0
    for number, (plan, grants) in enumerate(plans()):
        first, second, other = (
            run(plan, inputs(random.Random(f"{number} {n}"), random.Random(seed)), grants, NAMED)  # noqa: S311
            for n, seed in enumerate((number, number, -1 - number))
        )
        assert first.decisions == second.decisions, plan
        assert first.done == second.done, plan
        chosen += first.done != other.done
    assert chosen > PLANS / 20


def test_labels_only_grow() -> None:
    for number, (plan, grants) in enumerate(plans()[:300]):
        result = run(plan, inputs(random.Random(number)), grants)  # noqa: S311
        assert result.run is not None
        world = result.run.context()
        for entity in world.entities.values():
            sources = [world.entities[source].label for source in entity.sources]
            assert entity.label.covers(join_labels(sources))


def test_every_decision_can_be_repeated_from_its_record() -> None:
    for number, (plan, grants) in enumerate(plans()[:200]):
        result = run(plan, inputs(random.Random(number)), grants)  # noqa: S311
        for draft in result.drafts:
            if draft.kind == "decision":
                question = json.loads(canonical_json(draft.body["question"]))
                again = redecide(question)
                denied = again if isinstance(again, Denied) else Denied(reason="")
                assert (denied.rule, denied.reason) == (
                    draft.body.get("rule", ""),
                    draft.body.get("reason", ""),
                )
