"""A model writes plans, which are checked, corrected at most twice, then refused."""

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
    """A model that gives these replies, and stores its requests."""

    def __init__(self, *replies: str) -> None:
        self._left = list(replies)
        self.requests: list[ChatRequest] = []

    @property
    def complete(self) -> Complete:
        return self._complete

    def _complete(self, request: ChatRequest) -> Reply:
        self.requests.append(request)
        return Reply(message=Message(role="assistant", content=self._left.pop(0)))


def test_a_prompt_becomes_a_checked_plan() -> None:
    model = Model(SEED)
    assert make_plan(PROMPT, BRIEF, complete=model.complete, model="m").id == plan(SEED).id
    request = model.requests[0]
    assert request.response_schema is not None
    text = request.messages[0].content
    for word in (
        PROMPT.text,
        "send_email",
        "bob@example.com",
        "hr/**",
        "run_blueprint give",
        "input.issue",
    ):
        assert word in text


def test_the_model_may_correct_an_invalid_plan() -> None:
    unknown = SEED.replace("send_email", "launch_rocket")
    model = Model("{", unknown, SEED)
    assert make_plan(PROMPT, BRIEF, complete=model.complete, model="m").id == plan(SEED).id
    contents = [message.content for message in model.requests[2].messages]
    assert "not JSON" in contents[2]
    assert "no operation 'launch_rocket'" in contents[4]


def test_a_model_that_cannot_plan_is_refused_after_two_repairs() -> None:
    model = Model("no", "no", "no", SEED)
    with pytest.raises(PlanInvalid, match="in 3 attempts; the last error: the plan is not JSON"):
        make_plan(PROMPT, BRIEF, complete=model.complete, model="m")
    assert len(model.requests) == 3
