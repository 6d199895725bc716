"""Files that `harness memory` writes: the table `[memory]`, and a copy of a damaged database."""

from pathlib import Path

from contracts.errors import HomeUnavailable, OptionInvalid, SettingsInvalid
from contracts.files import write_atomically
from flows.config.environment import config_file
from flows.config.memory import EXAMPLE_LITELLM_MODEL, load_memory_settings
from flows.config.settings import load_settings
from memory.database import back_up, database_file
from providers.embed import PRESETS, litellm_name

_KEYS = {"google": "GOOGLE_API_KEY", "openai": "OPENAI_API_KEY"}


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
    _write(path, tomlkit.dumps(document))
    return path


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


def _write(path: Path, text: str) -> None:
    try:
        path.resolve().parent.mkdir(
            parents=True, exist_ok=True
        )  # harness.toml may be a link to a dotfile
        write_atomically(path, text)
    except OSError as error:
        raise HomeUnavailable(f"cannot write {path}: {error.strerror}") from error
