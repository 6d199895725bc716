"""What `harness memory` does with files: the table [memory], and a damaged database."""

import shutil
from pathlib import Path

from contracts.errors import HomeUnavailable, OptionInvalid, SettingsInvalid
from flows.memory_settings import load_memory_settings
from flows.settings import config_file, load_settings
from memory.database import back_up
from providers.embed import PRESETS

_KEYS = {"google": "GOOGLE_API_KEY", "openai": "OPENAI_API_KEY"}


def write_memory_table(provider: str, *, force: bool) -> Path:
    """Write [memory] to `harness.toml`; other tables in it stay as they are.

    Raises:
        OptionInvalid: there is one already, and `force` was not given.
        SettingsInvalid: the file is not TOML.
        HomeUnavailable: it cannot be written; what stands there stays.
    """
    import tomlkit
    from tomlkit.exceptions import ParseError

    path = config_file()
    try:
        document = tomlkit.parse(path.read_text()) if path.exists() else tomlkit.document()
    except ParseError as error:
        raise SettingsInvalid(f"{path} is not TOML: {error}") from error
    if "memory" in document and not force:
        raise OptionInvalid(f"{path} has a table [memory] already: --force replaces it")
    model, dimensions = PRESETS.get(provider, ("", None))
    embedding = {
        "provider": provider,
        "model": model,
        "dimensions": dimensions,
        "api_key": f"${{{_KEYS[provider]}}}" if provider in _KEYS else None,
        "url": "http://localhost:11434" if provider == "ollama" else None,
    }
    document["memory"] = {
        "auto_reflect": False,
        "max_age_days": 90.0,
        "min_confidence": 0.3,
        "embedding": {name: value for name, value in embedding.items() if value},
    }
    _write(path, tomlkit.dumps(document))
    return path


def copy_database() -> Path:
    """Copy the SQLite database aside; gives the folder it was copied to.

    Raises:
        OptionInvalid: it is no file, or there is none.
    """
    where = load_memory_settings().database(load_settings().home)
    if not isinstance(where, Path) or not where.exists():
        raise OptionInvalid(f"no database file at {str(where)!r}: there is nothing to copy")
    return back_up(where)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, with the rights that the file had."""
    own = path.resolve()  # it may be a link into somebody's dotfiles
    part = own.with_suffix(".part")
    try:
        own.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        if own.exists():
            shutil.copymode(own, part)
        part.replace(own)
    except OSError as error:
        raise HomeUnavailable(f"cannot write {path}: {error.strerror}") from error
