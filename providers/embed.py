"""Embeddings by litellm, in the gateway. The local model is in `mpnet.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel, Field, ValidationError

from contracts.chat import Usage
from contracts.errors import ModelUnavailable
from providers import mpnet
from providers.litellm_setup import litellm
from providers.model_failures import unavailable_error
from providers.prices import NO_PRICES, Prices, cost_usd
from providers.usage import usage_from

LOCAL_MODEL = mpnet.NAME
"""The model that needs no key and no network."""

PRESETS: Mapping[str, tuple[str, int | None]] = {
    "local": (LOCAL_MODEL, mpnet.DIMENSIONS),
    "google": ("gemini/gemini-embedding-001", 768),
    "openai": ("text-embedding-3-small", 1536),
    "ollama": ("ollama/nomic-embed-text-v2-moe", None),
    "none": ("", None),
}
"""Values of `harness memory init --provider` to a model and its dimensions."""

_PREFIXES = {"google": "gemini/", "ollama": "ollama/"}
_BATCH = 64


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


class Embeddings(NamedTuple):
    """One vector for each text, in the order of the texts, and the cost."""

    vectors: Sequence[Sequence[float]]
    usage: Usage


def embed(model: str, request: EmbeddingRequest, prices: Prices = NO_PRICES) -> Embeddings:
    """Call any embedding model of litellm, in batches.

    Raises:
        ModelRefused: the model does not accept one of the texts.
        ModelUnavailable: no key, no such model, no answer.
    """
    options = {
        "model": model,
        "dimensions": request.dimensions,
        "api_key": request.harness_api_key,
        "api_base": request.harness_api_base,
        "timeout": request.harness_timeout_s,
        "num_retries": 0,
    }
    options = {name: value for name, value in options.items() if value is not None}
    vectors: list[Sequence[float]] = []
    usage = Usage()
    for start in range(0, len(request.input), _BATCH):
        batch = _call(model, request.input[start : start + _BATCH], options)
        vectors += batch.vectors
        usage += batch.usage
    return Embeddings(vectors, replace(usage, cost_usd=cost_usd(model, usage, prices)))


def _call(model: str, texts: Sequence[str], options: Mapping[str, object]) -> Embeddings:
    import openai  # litellm derives all errors of providers from its root

    try:
        response = litellm().embedding(input=list(texts), **options)
    except openai.OpenAIError as error:
        # Not chained to its cause: providers echo requests and parts of keys there.
        raise unavailable_error(model, error, attempts=1) from None
    try:
        answer = _Answer.model_validate(response.model_dump())
    except ValidationError as error:
        raise ModelUnavailable(f"{model!r} answered without vectors") from error
    rows = answer.data
    if len(rows) != len(texts):
        raise ModelUnavailable(f"{model!r} gave {len(rows)} vectors for {len(texts)} texts")
    vectors = [row.embedding for row in sorted(rows, key=lambda row: row.index)]
    return Embeddings(vectors, usage_from(answer.usage or {}))


class _Row(BaseModel, frozen=True, extra="ignore"):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Answer(BaseModel, frozen=True, extra="ignore"):
    data: list[_Row]
    usage: dict[str, object] | None = None
