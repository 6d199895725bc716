"""What the gateway's admin API and its client exchange."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from contracts.model_access import AgentUsage
from providers.prices import Price

ERROR_HEADER = "x-harness-error"
"""The kind of an error, for our own client; agents read the body."""

AGENT_USAGE = TypeAdapter(AgentUsage)


class RunTerms(BaseModel, frozen=True, extra="forbid"):
    """What a run may spend in all, and where its trajectory is written."""

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
