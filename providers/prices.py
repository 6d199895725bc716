"""What tokens cost: by the prices that the user gives, else by litellm's map."""

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
        """What `usage` costs in dollars."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / _MILLION


Prices = Mapping[str, Price]
"""Model name to price; a price given here goes before litellm's."""

NO_PRICES: Prices = MappingProxyType({})


def cost_usd(model: str, usage: Usage, prices: Prices = NO_PRICES) -> float:
    """The price of `usage` in dollars; 0.0 for a model without a price (`is_priced` tells)."""
    if model in prices:
        return prices[model].cost_usd(usage)
    if _is_local(model) or not has_price(model):
        return 0.0
    import openai  # every error that litellm raises for a provider derives from its root

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
        return _listed(model_info(model)).cost_usd(usage)  # its map has models that it cannot find
    return float(prompt + completion)


def has_price(model: str, prices: Prices = NO_PRICES) -> bool:
    """True when the price of this model is known, so that a money limit means something."""
    if model in prices or _is_local(model):
        return True
    facts = model_info(model)
    told = "tiered_pricing" in facts or facts.get("input_cost_per_token") is not None
    return told and (model in litellm().model_cost or _is_theirs(model, facts))


def max_output_tokens(model: str) -> int | None:
    """The most tokens that one answer of this model can have; None when nobody knows."""
    most = None if _is_local(model) else model_info(model).get("max_output_tokens")
    return most if isinstance(most, int) else None


def _is_local(model: str) -> bool:
    return model.partition("/")[0] in LOCAL_PROVIDERS


def _is_theirs(model: str, facts: Mapping[str, object]) -> bool:
    """Whether these are facts of the provider that is asked: another has prices of its own."""
    return str(facts.get("litellm_provider")).startswith(model.partition("/")[0])


def _listed(facts: Mapping[str, object]) -> Price:
    """The price that litellm's map has, without its exceptions."""

    def million(name: str, default: float = 0.0) -> float:
        found = facts.get(name)
        return found * _MILLION if isinstance(found, int | float) else default

    fresh = million("input_cost_per_token")
    return Price(
        input=fresh,
        output=million("output_cost_per_token"),
        cache_read=million("cache_read_input_token_cost", fresh),
        cache_write=million("cache_creation_input_token_cost", fresh),
    )
