"""Opens the library and the notebook that the settings name. Knows nothing of Prefect."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from contracts.agents import AGENTS
from contracts.chat import Embed
from contracts.errors import ModelUnavailable
from flows.config.environment import environment
from flows.config.memory import (
    EmbeddingSettings,
    MemorySettings,
    expand_variables,
    load_memory_settings,
    unset_variables,
)
from flows.config.settings import load_settings
from flows.services.gateway import embed_through_gateway
from memory.notes.notebook import Notebook, open_notebook
from memory.playbooks.library import Library, open_library
from memory.types import Embedder
from providers import mpnet
from providers.embed import LOCAL_MODEL, PRESETS, litellm_name


@contextmanager
def configured_library(options: MemorySettings | None = None) -> Iterator[Library]:
    """Open the library that the settings name.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    home = load_settings().home
    chosen = options or load_memory_settings()
    with open_library(
        chosen.database(home),
        index=home / "index",
        embedder=_embedder(chosen.embedding),
        chroma_url=chosen.chroma_url,
    ) as opened:
        yield opened


@contextmanager
def configured_notebook(options: MemorySettings | None = None) -> Iterator[Notebook]:
    """Open the notebook in the same database.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    chosen = options or load_memory_settings()
    with open_notebook(
        chosen.database(load_settings().home),
        agents=AGENTS,
        embedder=_embedder(chosen.embedding),
    ) as opened:
        yield opened


def _embedder(wanted: EmbeddingSettings) -> Embedder | None:
    if wanted.provider == "none":
        return None
    usual, length = PRESETS.get(wanted.provider, ("", None))
    model = litellm_name(wanted.provider, wanted.model or usual)
    dimensions = wanted.dimensions or (length if model == usual else None)
    name = model if dimensions is None else f"{model}/{dimensions}"
    if model == LOCAL_MODEL:
        return Embedder(name=name, embed=mpnet.embed, max_distance=mpnet.MAX_DISTANCE)
    for place, value in {"api_key": wanted.api_key, "url": wanted.url}.items():
        if missing := unset_variables(value, environment()):
            return Embedder(name=name, embed=_lacking(place, missing))
    made = embed_through_gateway(
        load_settings(),
        model,
        dimensions=dimensions,
        api_key=expand_variables(wanted.api_key, environment()),
        api_base=expand_variables(wanted.url, environment()),
    )
    return Embedder(name=name, embed=made)


def _lacking(place: str, variables: Sequence[str]) -> Embed:
    """Return an embedder that is unavailable until its key is set; only words are searched until
    then."""

    def embed(_: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ModelUnavailable(
            f"`memory.embedding.{place}` names {', '.join(variables)}, which is not set"
        )

    return embed
