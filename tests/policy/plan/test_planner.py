"""A model writes plans; what it writes is checked again, mended twice, then refused."""

from datetime import UTC, datetime

import pytest

from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.errors import PlanInvalid
from policy.plan.models import PlannerInput, make_plan
from policy.types import UserPrompt
from tests.support.worlds import AUTHORITY, REGISTRY, SEED, plan

PROMPT = UserPrompt(text="Send Bob the notes on Q2 OKRs", at=datetime.now(UTC))
BRIEF = PlannerInput(
    registry=REGISTRY,
    authority=AUTHORITY,
    inputs={"issue": "the text of an issue"},
    tagged={"hr/**": frozenset({"pii"})},
)


class Model:
    """A model that says these, and keeps what it was asked."""

    def __init__(self, *replies: str) -> None:
        self._left = list(replies)
        self.asked: list[ChatRequest] = []

    @property
    def complete(self) -> Complete:
        return self._complete

    def _complete(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        return Reply(message=Message(role="assistant", content=self._left.pop(0)))


def test_a_prompt_becomes_a_checked_plan() -> None:
    model = Model(SEED)
    assert make_plan(PROMPT, BRIEF, complete=model.complete, model="m").id == plan(SEED).id
    asked = model.asked[0]
    assert asked.response_schema is not None
    said = asked.messages[0].content
    for word in (
        PROMPT.text,
        "send_email",
        "bob@example.com",
        "hr/**",
        "run_blueprint give",
        "input.issue",
    ):
        assert word in said


def test_what_is_wrong_is_mended_and_told_why() -> None:
    unknown = SEED.replace("send_email", "launch_rocket")
    model = Model("{", unknown, SEED)
    assert make_plan(PROMPT, BRIEF, complete=model.complete, model="m").id == plan(SEED).id
    told = [message.content for message in model.asked[2].messages]
    assert "not JSON" in told[2]
    assert "no operation 'launch_rocket'" in told[4]


def test_a_model_that_cannot_plan_is_refused_after_two_repairs() -> None:
    model = Model("no", "no", "no", SEED)
    with pytest.raises(PlanInvalid, match="in 3 attempts; the last error: the plan is not JSON"):
        make_plan(PROMPT, BRIEF, complete=model.complete, model="m")
    assert len(model.asked) == 3
