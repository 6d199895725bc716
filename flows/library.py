"""Opens the library and the notebook that the settings name. Knows nothing of Prefect."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows.memory_settings import (
    EmbeddingSettings,
    MemorySettings,
    expand,
    load_memory_settings,
)
from flows.request import AGENTS
from flows.settings import environment, load_settings
from memory.library import Library, open_library
from memory.notebook import Notebook, open_notebook
from memory.types import Embedder
from providers.embed import PRESETS, embedder


@contextmanager
def library(options: MemorySettings | None = None) -> Iterator[Library]:
    """The library that the settings name.

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
        auto_reflect=chosen.auto_reflect,
    ) as opened:
        yield opened


@contextmanager
def notebook(options: MemorySettings | None = None) -> Iterator[Notebook]:
    """The notebook in the same database.

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
    model = wanted.model or usual
    dimensions = wanted.dimensions or (length if model == usual else None)
    name = model if dimensions is None else f"{model}/{dimensions}"
    key = expand(wanted.api_key, environment())
    make = embedder(model, dimensions=dimensions, api_key=key, api_base=wanted.url)
    return Embedder(name=name, embed=make)
