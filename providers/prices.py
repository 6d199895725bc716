"""What tokens cost, by litellm's price map."""

from contracts.chat import Usage
from providers.litellm_door import litellm
from providers.models import LOCAL


def cost_usd(model: str, usage: Usage) -> float:
    """The price of `usage` in dollars; 0.0 for a model without a price (`is_priced` tells)."""
    if model.partition("/")[0] in LOCAL or not is_priced(model):
        return 0.0
    prompt, completion = litellm().cost_per_token(
        model=model,
        prompt_tokens=usage.input + usage.cache_read + usage.cache_write,
        completion_tokens=usage.output,
        cache_read_input_tokens=usage.cache_read,
        cache_creation_input_tokens=usage.cache_write,
    )
    return float(prompt + completion)


def is_priced(model: str) -> bool:
    """True when the price map knows this model, so that a money limit means something."""
    known = litellm().model_cost
    provider, _, name = model.partition("/")
    return provider in LOCAL or model in known or name in known
