"""Embedding models by name, and the bodies of the gateway's `/v1/embeddings`."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from providers import minilm

LOCAL_MODEL = minilm.NAME
"""The model that needs no key and no network."""

PRESETS: Mapping[str, tuple[str, int | None]] = {
    "local": (LOCAL_MODEL, minilm.DIMENSIONS),
    "google": ("gemini/gemini-embedding-001", 768),
    "openai": ("text-embedding-3-small", 1536),
    "ollama": ("ollama/nomic-embed-text-v2-moe", None),
    "none": ("", None),
}
"""Values of `harness memory init --provider` to a model and its dimensions."""

_PREFIXES = {"google": "gemini/", "ollama": "ollama/"}


def litellm_name(provider: str, model: str) -> str:
    """Return the model with the prefix by which litellm finds its provider."""
    return model if "/" in model else _PREFIXES.get(provider, "") + model


class EmbeddingRequest(BaseModel, frozen=True, extra="ignore"):
    """One request in the form of OpenAI's API; only our own client sends `harness_…`."""

    input: list[str] = Field(min_length=1)
    dimensions: int | None = None
    harness_api_key: str | None = None
    harness_api_base: str | None = None
    harness_timeout_s: float = 20.0
    """For each batch of texts."""


class EmbeddingRow(BaseModel, frozen=True, extra="ignore"):
    """The vector of one text; `index` is the place of the text in the request."""

    index: int
    embedding: list[float] = Field(min_length=1)


class EmbeddingAnswer(BaseModel, frozen=True, extra="ignore"):
    """The answer of a provider, and of the gateway."""

    data: list[EmbeddingRow]
    usage: dict[str, object] | None = None
