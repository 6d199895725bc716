"""What holds for every plan: untrusted bytes change no decision, and labels only grow."""

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
SOME = frozenset({"READ", "WRITE", "SEND"})


def inputs(untrusted: random.Random) -> dict[str, Entity]:
    """Inputs of every kind; the bytes of the untrusted ones are drawn anew."""

    def held(label: Label, value: Json) -> Entity:
        return Entity(content=value, label=label, origin="input")

    def bytes_() -> Json:
        return untrusted.choice([untrusted.randbytes(4).hex(), "bob", "", 0, True, None])

    return {
        "input.clean": held(CLEAN, shaped(lambda: "bob")),
        "input.pii": held(PII, shaped(lambda: "bob")),
        "input.web": held(WEB, shaped(bytes_)),
        "input.both": held(BOTH, shaped(bytes_)),
        "place.shelf": held(CLEAN, "shelf"),
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


def test_labels_only_grow() -> None:
    for number, (plan, grants) in enumerate(plans()[:300]):
        told = run(plan, inputs(random.Random(number)), grants)  # noqa: S311
        assert told.run is not None
        world = told.run.context()
        for entity in world.entities.values():
            sources = [world.entities[source].label for source in entity.sources]
            assert entity.label.covers(join_labels(sources))


def test_every_decision_is_made_again_from_its_note_alone() -> None:
    for number, (plan, grants) in enumerate(plans()[:200]):
        told = run(plan, inputs(random.Random(number)), grants)  # noqa: S311
        for draft in told.drafts:
            if draft.kind == "decision":
                question = json.loads(canonical_json(draft.body["question"]))
                again = redecide(question)
                denied = again if isinstance(again, Denied) else Denied(reason="")
                assert (denied.rule, denied.reason) == (
                    draft.body.get("rule", ""),
                    draft.body.get("reason", ""),
                )
