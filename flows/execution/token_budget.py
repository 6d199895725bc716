"""What bounds a run whose model has no known price: a budget in tokens instead of dollars."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from contracts.errors import OptionInvalid
from flows.config.settings import Settings
from flows.runs.request import ResolvedRequest
from providers.models import is_local

UNPRICED_TOKENS = 5_000_000
"""Tokens for all agents of a run whose model has no known price, if no setting says otherwise."""

FindUnpriced = Callable[[Collection[str]], list[str]]
"""Returns those of the models whose price is not known."""


class TokenBudget(NamedTuple):
    """Tokens that all agents of a run may use together; None: no limit. `notice` is for people."""

    tokens: int | None
    notice: str = ""


def token_budget(
    request: ResolvedRequest, settings: Settings, find_unpriced: FindUnpriced
) -> TokenBudget:
    """Return the limit of a run.

    Raises:
        OptionInvalid: the run has a budget in dollars, which cannot stop a model without a price.
        ModelUnavailable: the gateway does not answer.
    """
    asked = sorted(m for m in request.models if not is_local(m) and m not in settings.prices)
    unpriced = find_unpriced(asked) if asked else []
    if not unpriced:
        return TokenBudget(settings.budget_tokens)
    model = unpriced[0]
    price = f'`[prices."{model}"]` with `input = …` and `output = …` (dollars per million tokens)'
    if request.budget_usd:
        raise OptionInvalid(
            f"no price is known for {model!r}, so a budget of ${request.budget_usd:g} cannot stop "
            f"it: add {price} to harness.toml, or give no budget in dollars: the run is then "
            f"stopped at {settings.budget_tokens or UNPRICED_TOKENS:,} tokens (`budget_tokens`)"
        )
    tokens = settings.budget_tokens or UNPRICED_TOKENS
    return TokenBudget(
        tokens,
        f"no price is known for {model!r}: the run's agents may use {tokens:,} tokens together; "
        f"`budget_tokens` changes that, and {price} in harness.toml lets a budget in dollars count",
    )
