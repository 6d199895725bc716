"""Settings of one table of `harness.toml`, which environment variables override."""

import logging
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from tomllib import loads
from typing import ClassVar, TypeVar

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from contracts.errors import SettingsInvalid
from flows.config.environment import config_file, environment
from flows.config.settings import settings_errors


class SettingsTable(BaseSettings):
    """Settings of `[table]` in the file and `HARNESS_<TABLE>_…` in the environment."""

    table: ClassVar[str]
    removed: ClassVar[Mapping[str, str]] = {}
    """Settings that an older Harness had, each with what holds now. They are ignored, with a
    warning: an upgrade does not make a file invalid."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        values = {
            name: value for name, value in _read(cls.table).items() if name not in cls.removed
        }
        table = InitSettingsSource(settings_cls, init_kwargs=values)
        return (init_settings, env_settings, table)


T = TypeVar("T", bound=SettingsTable)

_log = logging.getLogger("memory.settings")
"""The terminal shows warnings of loggers below `memory`, the only table with removed settings."""


def load_table(kind: type[T]) -> T:
    """Read the settings of a table.

    Raises:
        SettingsInvalid: a value cannot be used, a variable of the table names no setting of it,
            or the file is not TOML.
    """
    with settings_errors(kind.table):
        _check_variables(kind)
        for place, replacement in _removed(kind):
            _warn_removed(place, replacement)
        return kind()


@cache
def _warn_removed(place: str, replacement: str) -> None:
    """Warn of a removed setting. Cached: settings are read often, and one warning is enough."""
    _log.warning("%s has no effect any more, remove it: %s", place, replacement)


def _removed(kind: type[SettingsTable]) -> Iterator[tuple[str, str]]:
    """Yield each place where a removed setting is set and not off, with its replacement."""
    values = _read(kind.table)
    for name, now in kind.removed.items():
        if values.get(name, False) is not False:
            yield f"setting '{kind.table}.{name}' in {config_file()}", now
        variable = f"HARNESS_{kind.table.upper()}_{name.upper()}"
        if variable in map(str.upper, environment()):
            yield f"the variable {variable}", now


def _check_variables(kind: type[SettingsTable]) -> None:
    """Refuse mistyped variables: pydantic ignores them, unlike unknown names in the file."""
    prefix = f"HARNESS_{kind.table.upper()}_"
    known = {f"{prefix}{field.upper()}" for field in (*kind.model_fields, *kind.removed)}
    for variable in environment():
        whole = variable.upper()
        name = whole if whole.startswith(f"{prefix}_") else whole.partition("__")[0]
        if name.startswith(prefix) and name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise SettingsInvalid(
                f"the variable {variable!r} names no setting of {kind.table!r}.{hint}"
            )


def _read(name: str) -> dict[str, object]:
    """Return the table of the file; empty if the file or the table does not exist."""
    path = config_file()
    table = loads(path.read_text()).get(name, {}) if path.exists() else {}
    return dict(table)
