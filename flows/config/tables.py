"""A table of `harness.toml` as settings of its own, with variables over it."""

from difflib import get_close_matches
from functools import lru_cache
from tomllib import loads
from typing import ClassVar, TypeVar

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from contracts.errors import SettingsInvalid
from flows.config.environment import Sources, config_file, sources
from flows.config.settings import settings_told


class Table(BaseSettings):
    """Settings that are `[table]` in the file, and `HARNESS_<TABLE>_…` in the environment."""

    table: ClassVar[str]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        table = InitSettingsSource(settings_cls, init_kwargs=_read(cls.table))
        return (init_settings, env_settings, table)


T = TypeVar("T", bound=Table)


def load_table(kind: type[T]) -> T:
    """Read the settings of a table.

    Raises:
        SettingsInvalid: a value cannot be used, a variable of the table names no setting of it,
            or the file is not TOML.
    """
    with settings_told(kind.table):
        found = sources()
        _check_variables(kind, found)
        table: T = _read_table(kind, found)
    return table


@lru_cache(maxsize=8)
def _read_table(kind: type[T], _: Sources) -> T:
    return kind()


def _check_variables(kind: type[Table], found: Sources) -> None:
    """pydantic passes over a variable whose name is mistyped; in the file it refuses one."""
    prefix = f"HARNESS_{kind.table.upper()}_"
    known = {f"{prefix}{field.upper()}" for field in kind.model_fields}
    for variable, _ in found.environ:
        whole = variable.upper()
        name = whole if whole.startswith(f"{prefix}_") else whole.partition("__")[0]
        if name.startswith(prefix) and name not in known:
            close = get_close_matches(name, sorted(known), n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise SettingsInvalid(
                f"the variable {variable!r} names no setting of {kind.table!r}.{hint}"
            )


def _read(name: str) -> dict[str, object]:
    """The table; empty where the file, or the table, is not there."""
    path = config_file()
    table = loads(path.read_text()).get(name, {}) if path.exists() else {}
    return dict(table)
