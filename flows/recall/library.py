"""The memory that the settings name: open it, copy its database, write its table of settings."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.chat import Embed
from contracts.errors import HomeUnavailable, ModelUnavailable, OptionInvalid, SettingsInvalid
from contracts.files import write_atomically
from flows.config.environment import config_file, environment
from flows.config.memory import (
    EXAMPLE_LITELLM_MODEL,
    EmbeddingSettings,
    MemorySettings,
    expand_variables,
    load_memory_settings,
    unset_variables,
)
from flows.config.settings import load_settings
from memory.database import back_up, database_file
from memory.playbooks.library import Library, open_library
from memory.types import Embedder
from providers import minilm
from providers.embed import LOCAL_MODEL, PRESETS, litellm_name

if TYPE_CHECKING:
    from memory.notes.notebook import Notebook

_log = logging.getLogger("memory.model")  # warnings of `memory` are shown at the terminal

_KEYS = {"google": "GOOGLE_API_KEY", "openai": "OPENAI_API_KEY"}


@contextmanager
def configured_library(
    options: MemorySettings | None = None, *, single_search: bool = False
) -> Iterator[Library]:
    """Open the library that the settings name.

    For a `single_search` the vectors are compared in the database, without Chroma.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    home = load_settings().home
    chosen = options or load_memory_settings()
    with open_library(
        chosen.database(home),
        index=None if single_search else home / "index",
        embedder=_embedder(chosen.embedding),
        chroma_url=chosen.chroma_url,
    ) as opened:
        yield opened


@contextmanager
def configured_notebook(options: MemorySettings | None = None) -> Iterator["Notebook"]:
    """Open the notebook in the same database.

    Raises:
        SettingsInvalid, StoreUnavailable, StoreCorrupt, StoreTooNew.
    """
    from memory.notes.notebook import open_notebook  # here: playbooks are opened more often
    from nodes.agents.table import agent_rows

    home = load_settings().home  # before the agents, which it names too
    chosen = options or load_memory_settings()
    with open_notebook(
        chosen.database(home),
        agents=agent_rows(),
        embedder=_embedder(chosen.embedding),
    ) as opened:
        yield opened


def write_memory_table(provider: str, *, model: str = "", force: bool) -> Path:
    """Write `[memory]` to `harness.toml`; other tables stay as they are.

    An empty model means the provider's default.

    Raises:
        OptionInvalid: the table exists and `force` is False, or a model is required.
        SettingsInvalid: the file is not TOML.
        HomeUnavailable: the file cannot be written; it is unchanged.
    """
    import tomlkit
    from tomlkit.exceptions import ParseError

    path = config_file()
    try:
        document = tomlkit.parse(path.read_text()) if path.exists() else tomlkit.document()
    except (ParseError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path} is not TOML: {error}") from error
    except OSError as error:
        raise SettingsInvalid(f"{path} cannot be read: {error.strerror}") from error
    if "memory" in document and not force:
        raise OptionInvalid(f"{path} has a table [memory] already: --force replaces it")
    usual, dimensions = PRESETS.get(provider, ("", None))
    if provider == "litellm" and not model:
        raise OptionInvalid(f"--provider litellm needs --model, such as {EXAMPLE_LITELLM_MODEL!r}")
    model = litellm_name(provider, model or usual)
    embedding = {
        "provider": provider,
        "model": model,
        "dimensions": dimensions if model == usual else None,
        "api_key": f"${{{_KEYS[provider]}}}" if provider in _KEYS else None,
        "url": "http://localhost:11434" if provider == "ollama" else None,
    }
    document["memory"] = {
        "max_age_days": 90.0,
        "min_confidence": 0.3,
        "embedding": {name: value for name, value in embedding.items() if value},
    }
    try:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)  # it may be a link to a dotfile
        write_atomically(path, tomlkit.dumps(document))
    except OSError as error:
        raise HomeUnavailable(f"cannot write {path}: {error.strerror}") from error
    return path


def download_local_model() -> None:
    """Download the local embedding model if it is missing; a failure is a warning."""
    if not minilm.is_installed():
        try:
            minilm.install()
        except ModelUnavailable as error:
            _log.warning("%s", error)


def copy_database() -> Path:
    """Copy the SQLite database aside; return the folder with the copy.

    Raises:
        OptionInvalid: the database is not a file, or does not exist.
        SettingsInvalid: the settings name a database that cannot be used.
        StoreUnavailable: it cannot be copied.
    """
    file = database_file(load_memory_settings().database(load_settings().home))
    if file is None:
        raise OptionInvalid("the database is not a file: copy it with the tools of its server")
    if not file.is_file():
        raise OptionInvalid(f"no database file at {str(file)!r}: there is nothing to copy")
    return back_up(file)


def _embedder(wanted: EmbeddingSettings) -> Embedder | None:
    if wanted.provider == "none":
        return None
    usual, length = PRESETS.get(wanted.provider, ("", None))
    model = wanted.model or usual
    if model != LOCAL_MODEL:
        model = litellm_name(wanted.provider, model)
    dimensions = wanted.dimensions or (length if model == usual else None)
    name = model if dimensions is None else f"{model}/{dimensions}"
    if model == LOCAL_MODEL:
        return Embedder(name=name, embed=minilm.embed, max_distance=None)
    # A missing key must not stop a run: words are searched, and vectors are made later.
    for place, value in {"api_key": wanted.api_key, "url": wanted.url}.items():
        if missing := unset_variables(value, environment()):
            return Embedder(name=name, embed=_lacking(place, missing))
    from flows.services.gateway import embed_through_gateway  # the local model needs no gateway

    made = embed_through_gateway(
        load_settings(),
        model,
        dimensions=dimensions,
        api_key=expand_variables(wanted.api_key, environment()),
        api_base=expand_variables(wanted.url, environment()),
    )
    return Embedder(name=name, embed=made, max_distance=None)


def _lacking(place: str, variables: Sequence[str]) -> Embed:
    """Return an embedder that is unavailable until its key is set: only words are searched."""

    def embed(_: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ModelUnavailable(
            f"`memory.embedding.{place}` names {', '.join(variables)}, which is not set"
        )

    return embed
