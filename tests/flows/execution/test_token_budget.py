"""A model whose price is not known is bounded by tokens."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint
from contracts.errors import OptionInvalid
from flows.config.settings import load_settings
from flows.execution.engine import run_blueprint
from flows.execution.token_budget import UNPRICED_TOKENS, TokenBudget, token_budget
from flows.runs.request import ResolvedRequest
from tests.support.agent_calls import call, reply
from tests.support.flows import Ask, scripted_shop

ONE = blueprint("one", "One", [agentic("think", "think", prompt=lambda _: "think")])
MODEL = "acme/new"


def found(request: ResolvedRequest) -> TokenBudget:
    """The budget, where no price of any model is known."""
    return token_budget(request, load_settings(), list)


def test_a_model_without_a_price_is_bounded_by_tokens_and_named(ask: Ask) -> None:
    budget = found(ask(ONE, model=MODEL))
    assert budget.tokens == UNPRICED_TOKENS
    assert "no price is known for 'acme/new'" in budget.notice


def test_a_budget_in_dollars_for_it_is_refused_with_what_to_write(ask: Ask) -> None:
    with pytest.raises(OptionInvalid, match=r'add `\[prices."acme/new"\]` with `input = …`'):
        found(ask(ONE, model=MODEL).changed(budget_usd=1.0))


def test_a_price_of_the_users_own_lets_dollars_count(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_PRICES", '{"acme/new": {"input": 1, "output": 2}}')
    assert found(ask(ONE, model=MODEL).changed(budget_usd=1.0)) == TokenBudget(None)


def test_a_scripted_model_needs_no_bound(ask: Ask) -> None:
    assert found(ask(ONE, model="scripted/none")) == TokenBudget(None)


def test_all_agents_of_a_run_stop_at_the_token_budget(
    own_store: Path, ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_BUDGET_TOKENS", "1000")
    look = call("bash", {"command": "true"})
    nodes = [agentic(name, "-", prompt=lambda _: "think") for name in ("a", "b")]
    script = model(reply("", look), reply("Done."), reply("", look), reply("Done."))
    request = ask(blueprint("two", "Two", nodes), model=script)
    report = run_blueprint(request, scripted_shop(), run_id="abcd3001")
    assert report.status == "failure"
    assert "token" in (report.error or "")
    assert report.token_usage.total < 3 * 970
