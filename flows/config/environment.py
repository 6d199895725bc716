"""The environment, and where `harness.toml` is: all that settings come from, and other variables.

pydantic takes the values of settings from it; who needs another variable asks `environment`. Some
read or set variables themselves, none of which is a setting:

- `sandbox/` reads DOCKER_HOST and where the host's certificates are, as Docker's own clients do,
  and hands the environment to git and other programs of the host.
- `providers/litellm_setup.py` and `app/terminal/output.py` set what a library reads on import.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from contracts.errors import SettingsInvalid

VARIABLE_PREFIX = "HARNESS_"
"""How the variables begin that are settings."""


def config_file() -> Path:
    """Where `harness.toml` is looked for, named from the root; it need not exist."""
    home = Path(os.environ.get("HARNESS_HOME") or "~/.harness")
    return absolute_path(Path(os.environ.get("HARNESS_CONFIG") or home / "harness.toml"))


def relative_to_config(path: Path) -> Path:
    """A relative path of the settings starts beside `harness.toml`, not at the current directory,
    which may be a repository of anybody's.
    """
    return absolute_path(path, config_file().parent)


def absolute_path(path: Path, start: Path = Path()) -> Path:
    """The same path, named from the root; a relative one starts at `start`.

    Raises:
        SettingsInvalid: it leads nowhere.
    """
    try:
        return (start / path.expanduser()).absolute()
    except (RuntimeError, OSError) as error:  # no such user; the current directory is gone
        raise SettingsInvalid(f"{str(path)!r} leads nowhere: set HARNESS_HOME") from error


ConfigPath = Annotated[Path, AfterValidator(relative_to_config)]
"""A path that starts beside `harness.toml` where it is relative."""


class SettingsSources(NamedTuple):
    """All that settings are read from: the same, the same settings."""

    environ: tuple[tuple[str, str], ...]
    file: bytes


def settings_sources() -> SettingsSources:
    """What settings would be read from now."""
    file = config_file()
    ours = (pair for pair in os.environ.items() if pair[0].upper().startswith(VARIABLE_PREFIX))
    return SettingsSources(tuple(sorted(ours)), file.read_bytes() if file.is_file() else b"")


@contextmanager
def set_variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, and of those it starts, until the block ends."""
    before = {name: os.environ[name] for name in given if name in os.environ}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            os.environ.pop(name, None)
        os.environ.update(before)


def environment() -> Mapping[str, str]:
    """The environment, for those who look up keys, redact secrets or start what is elsewhere."""
    named = (name for name in ("HARNESS_HOME", "HARNESS_CONFIG") if os.environ.get(name))
    return {**os.environ, **{name: str(absolute_path(Path(os.environ[name]))) for name in named}}
