"""What a run may spend, and what all its agents spent together."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, Field

from contracts.chat import Usage
from providers.answer_parts import AnswerPart
from providers.call_model import RunModels, Sleep
from providers.model_request import ModelRequest
from providers.prices import Price
from providers.scripted import SCRIPTED_PREFIX
from providers.trajectory import Redact, Trajectory


class RunTerms(BaseModel, frozen=True, extra="forbid"):
    """What a run may spend in all, and where its trajectory goes."""

    run_id: str = Field(min_length=1)
    trajectory: Path
    budget_usd: float | None = None
    """All tokens of the run together spend this much, give or take the replies under way."""
    ttl_s: float = Field(default=6 * 3600.0, gt=0)
    """Tokens are worth nothing after this long, whether the run was closed or not."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Prices that go before litellm's."""
    spent_usd: float = 0.0
    """What was spent before the run went on; it counts towards the budget."""
    replay: Path | None = None
    """An old trajectory: its replies are played, whatever model is named."""
    replies_given: Mapping[str, int] = Field(default_factory=dict)
    """Replies, by model, that were given before the run went on: scripts begin after them."""
    secrets: tuple[str, ...] = ()
    """Values that are blanked out in the trajectory, besides the gateway's own."""
    process: str = ""
    """The label of the process that does the run, as `IsOver` takes it: it ends, the run ends."""


class RunAccount:
    """One open run: its models, its trajectory and what it spent."""

    def __init__(self, terms: RunTerms, redact: Redact, pause: Sleep) -> None:
        self.terms = terms
        self._models = RunModels(terms.prices, pause=pause, said=terms.replies_given)
        self.secrets = [secret for secret in terms.secrets if secret]
        self.trajectory = Trajectory(terms.trajectory, redact=lambda t: self._mask(redact(t)))
        self.ends_at = time.monotonic() + terms.ttl_s
        self._usage = Usage(cost_usd=terms.spent_usd)
        self._lock = threading.Lock()

    def answer(self, model: str, ask: ModelRequest) -> Iterator[AnswerPart]:
        """The model's answer, or the next of the trajectory that is replayed.

        Raises:
            ModelUnavailable, OptionInvalid: as `RunModels.answer`.
        """
        replay = self.terms.replay
        return self._models.call(model if replay is None else f"{SCRIPTED_PREFIX}{replay}", ask)

    def count(self, usage: Usage) -> None:
        """Add one reply of any of the run's agents, who may spend at the same time."""
        with self._lock:
            self._usage += usage

    def spent(self) -> Usage:
        """What all its agents spent together."""
        return self._usage

    def exceeded(self) -> str | None:
        """Why no more may be spent, or None."""
        budget, spent = self.terms.budget_usd, self._usage
        if budget is None or spent.cost_usd < budget:
            return None
        return f"budget exceeded: ${spent.cost_usd:.4f} of ${budget:g}, {spent.total} tokens"

    def _mask(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[redacted]")
        return text
