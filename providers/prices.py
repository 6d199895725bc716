"""Prices of tokens: the user's own, else those in litellm's list."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, Field

from contracts.chat import Usage
from providers.litellm_setup import litellm
from providers.models import LOCAL_PROVIDERS, model_info

_MILLION = 1_000_000


class Price(BaseModel, frozen=True, extra="forbid"):
    """Dollars for a million tokens of each kind."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)
    cache_read: float = Field(default=0.0, ge=0)
    cache_write: float = Field(default=0.0, ge=0)

    def cost_usd(self, usage: Usage) -> float:
        """Return the cost of `usage` in dollars."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / _MILLION


Prices = Mapping[str, Price]
"""Model name to the user's own price, which replaces litellm's."""

NO_PRICES: Prices = MappingProxyType({})


def cost_usd(model: str, usage: Usage, prices: Prices = NO_PRICES) -> float:
    """Return the cost of `usage` in dollars; 0.0 for a model without a price."""
    if model in prices:
        return prices[model].cost_usd(usage)
    if _is_local(model) or not has_price(model):
        return 0.0
    import openai  # litellm derives all errors of providers from its root

    module = litellm()
    try:
        prompt, completion = module.cost_per_token(
            model=model,
            prompt_tokens=usage.input + usage.cache_read + usage.cache_write,
            completion_tokens=usage.output,
            cache_read_input_tokens=usage.cache_read,
            cache_creation_input_tokens=usage.cache_write,
        )
    except (module.exceptions.ModelNotMappedError, openai.OpenAIError, ValueError):
        # litellm cannot find some models of its own list, such as most of Bedrock's.
        return _list_price(model_info(model)).cost_usd(usage)
    return float(prompt + completion)


def has_price(model: str, prices: Prices = NO_PRICES) -> bool:
    """Return whether the model's price is known, so that a budget in dollars can stop it."""
    if model in prices or _is_local(model):
        return True
    info = model_info(model)
    if "tiered_pricing" not in info and info.get("input_cost_per_token") is None:
        return False
    # The entry may be found by the bare name and belong to another provider with other prices.
    same_provider = str(info.get("litellm_provider")).startswith(model.partition("/")[0])
    return model in litellm().model_cost or same_provider


def max_output_tokens(model: str) -> int | None:
    """Return the longest answer that the model can give; None if unknown."""
    maximum = None if _is_local(model) else model_info(model).get("max_output_tokens")
    return maximum if isinstance(maximum, int) else None


def _is_local(model: str) -> bool:
    return model.partition("/")[0] in LOCAL_PROVIDERS


def _list_price(info: Mapping[str, object]) -> Price:
    """Return the price in litellm's list, without higher prices for long prompts."""

    def per_million(name: str, default: float = 0.0) -> float:
        price = info.get(name)
        return price * _MILLION if isinstance(price, int | float) else default

    fresh = per_million("input_cost_per_token")
    return Price(
        input=fresh,
        output=per_million("output_cost_per_token"),
        cache_read=per_million("cache_read_input_token_cost", fresh),
        cache_write=per_million("cache_creation_input_token_cost", fresh),
    )
