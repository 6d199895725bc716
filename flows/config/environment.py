"""Environment variables and the path of `harness.toml`: the sources of all settings.

pydantic reads the settings; code that needs another variable calls `environment`. Two places access
variables themselves, and none of these is a setting:

- `sandbox/` reads DOCKER_HOST and the path of the host's certificates, as Docker's own clients do,
  and passes the environment to git and other programs of the host.
- `providers/models.py` and `app/terminal/output.py` set variables that libraries read.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from contracts.errors import SettingsInvalid

VARIABLE_PREFIX = "HARNESS_"
"""Prefix of the variables that are settings."""


def config_file() -> Path:
    """Return the absolute path of `harness.toml`; the file need not exist."""
    home = Path(os.environ.get("HARNESS_HOME") or "~/.harness")
    return absolute_path(Path(os.environ.get("HARNESS_CONFIG") or home / "harness.toml"))


def relative_to_config(path: Path) -> Path:
    """Return the absolute path; a relative one starts at the folder of `harness.toml`.

    Never at the current directory, which may be an untrusted repository.
    """
    return absolute_path(path, config_file().parent)


def absolute_path(path: Path, start: Path = Path()) -> Path:
    """Return the absolute path; a relative one starts at `start`.

    Raises:
        SettingsInvalid: the home of `~` or the current directory does not exist.
    """
    try:
        return (start / path.expanduser()).absolute()
    except (RuntimeError, OSError) as error:  # no such user; the current directory is gone
        raise SettingsInvalid(f"{str(path)!r} leads nowhere: set HARNESS_HOME") from error


ConfigPath = Annotated[Path, AfterValidator(relative_to_config)]
"""A path; if it is relative, it starts at the folder of `harness.toml`."""


@contextmanager
def set_variables(new: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process and its children until the block ends."""
    before = {name: os.environ[name] for name in new if name in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)
        os.environ.update(before)


def completed_words() -> list[str]:
    """Return the words of the command line that a shell asks to complete, without `harness`."""
    if "_HARNESS_COMPLETE" not in os.environ:
        return []
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return typed.split()[1:]


def environment() -> Mapping[str, str]:
    """Return the environment, with absolute paths in HARNESS_HOME and HARNESS_CONFIG."""
    paths = (name for name in ("HARNESS_HOME", "HARNESS_CONFIG") if os.environ.get(name))
    return {**os.environ, **{name: str(absolute_path(Path(os.environ[name]))) for name in paths}}
