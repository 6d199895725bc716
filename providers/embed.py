"""Makes vectors: by litellm for hosted and Ollama models, else by the packaged local one."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field, ValidationError

from contracts.chat import Embed
from contracts.errors import ModelUnavailable
from providers import minilm
from providers.failures import explain
from providers.litellm_door import litellm

LOCAL = minilm.NAME
"""The model that needs no key and no network."""

PRESETS: Mapping[str, tuple[str, int | None]] = {
    "local": (LOCAL, minilm.DIMENSIONS),
    "google": ("gemini/gemini-embedding-001", 768),
    "openai": ("text-embedding-3-small", 1536),
    "ollama": ("ollama/nomic-embed-text-v2-moe", None),
    "none": ("", None),
}
"""Words for `harness memory init --provider` to a model and its dimensions."""

_BATCH = 64


def embedder(
    model: str = LOCAL,
    *,
    dimensions: int | None = None,
    api_key: str | None = None,
    api_base: str | None = None,
    timeout_s: float = 20.0,
) -> Embed:
    """An `embed` for this model: the local one's name, or any litellm embedding model.

    Every call may raise ModelUnavailable: no key, no such model, no answer.
    """
    if model == LOCAL:
        return minilm.embed
    options = {
        "model": model,
        "dimensions": dimensions,
        "api_key": api_key,
        "api_base": api_base,
        "timeout": timeout_s,
        "num_retries": 0,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return lambda texts: _embed(model, texts, given)


def _embed(
    model: str, texts: Sequence[str], options: Mapping[str, object]
) -> Sequence[Sequence[float]]:
    vectors: list[Sequence[float]] = []
    for start in range(0, len(texts), _BATCH):
        vectors += _call(model, texts[start : start + _BATCH], options)
    return vectors


def _call(
    model: str, texts: Sequence[str], options: Mapping[str, object]
) -> Sequence[Sequence[float]]:
    import openai  # every error that litellm raises for a provider derives from its root

    try:
        response = litellm().embedding(input=list(texts), **options)
    except openai.OpenAIError as error:
        # Not chained to its cause: providers echo requests and parts of keys there.
        raise ModelUnavailable(explain(model, error, attempts=1)) from None
    try:
        rows = _Answer.model_validate(response.model_dump()).data
    except ValidationError as error:
        raise ModelUnavailable(f"{model!r} answered without vectors") from error
    if len(rows) != len(texts):
        raise ModelUnavailable(f"{model!r} gave {len(rows)} vectors for {len(texts)} texts")
    return [row.embedding for row in sorted(rows, key=lambda row: row.index)]


class _Row(BaseModel, frozen=True, extra="ignore"):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Answer(BaseModel, frozen=True, extra="ignore"):
    data: list[_Row]
