"""Types that the gateway's admin API and its client exchange. Imports neither of them."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, Field, TypeAdapter

from contracts.chat import Usage
from contracts.model_access import AgentUsage

ERROR_HEADER = "x-harness-error"
"""The kind of an error, for our own client; agents read the body."""

AGENT_USAGE = TypeAdapter(AgentUsage)


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
        ) / 1_000_000


Prices = Mapping[str, Price]
"""Model name to the user's own price, which replaces litellm's."""

NO_PRICES: Prices = MappingProxyType({})


class RunTerms(BaseModel, frozen=True, extra="forbid"):
    """Limits, prices and trajectory of a run that is opened at the gateway."""

    run_id: str = Field(min_length=1)
    trajectory: Path
    budget_usd: float | None = None
    """Limit for all agents together; answers under way when it is reached are still paid."""
    ttl_s: float = Field(default=6 * 3600.0, gt=0)
    """The run's tokens are refused after this time, whether the run was closed or not."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Prices that replace litellm's."""
    spent_usd: float = 0.0
    """Dollars spent before a resumed run was resumed; they count towards the budget."""
    replay: Path | None = None
    """A trajectory whose replies are played, whatever model is named."""
    replies_given: Mapping[str, int] = Field(default_factory=dict)
    """For a resumed run: replies of each scripted model that are skipped."""
    secrets: tuple[str, ...] = ()
    """Values that are redacted in the trajectory, besides the gateway's own."""
    process: str = ""
    """Label of the process that executes the run; when that process exits, the run is closed."""


class CheckModelRequest(BaseModel, frozen=True, extra="forbid"):
    """The model to check."""

    model: str
