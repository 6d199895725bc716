"""Embeddings by a provider's model, through the gateway, so that no flow imports litellm."""

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_hex

from contracts.chat import Embed
from contracts.model_access import INTERNAL_AGENT, TokenSpec
from flows.config.settings import Settings
from flows.services.gateway import open_gateway_run
from providers.embed import EmbeddingRequest

PURPOSE = "embed"


def embed_through_gateway(
    settings: Settings,
    model: str,
    *,
    dimensions: int | None = None,
    api_key: str | None = None,
    api_base: str | None = None,
) -> Embed:
    """Return an `Embed` that calls the model through the gateway; the first call starts it.

    Each call is a run of its own in the gateway, so that a process that lives for days survives a
    restart of the gateway. Calls are recorded in the folder `calls` of the home, one file a day.

    Raises (when called):
        ModelUnavailable: the gateway or the model does not answer.
    """

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not texts:
            return []
        today = datetime.now(UTC).strftime("%Y%m%d")
        path = settings.home / "calls" / f"{today}-{PURPOSE}.jsonl"
        ask = EmbeddingRequest(
            input=list(texts),
            dimensions=dimensions,
            harness_api_key=api_key,
            harness_api_base=api_base,
        )
        terms = TokenSpec(node=PURPOSE, agent=INTERNAL_AGENT, model=model)
        with (
            open_gateway_run(settings, f"{PURPOSE}-{token_hex(4)}", path) as run,
            run.open_gate(terms) as gate,
        ):
            return run.gateway.embed(gate.token, ask)

    return embed
