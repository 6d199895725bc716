"""The list of protected files in `protected.toml`: its groups, and globs that permit changes."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from policy.authority import folder_patterns, glob_pattern, matches_any
from policy.guard.look_alikes import comparable

EXCEPT = "!"
"""Begins a pattern of files that are not protected although another pattern matches them."""


@cache
def protected_groups() -> Mapping[str, Mapping[str, str]]:
    """Return the groups of the list; each maps patterns to what executes or obeys the files."""
    text = Path(__file__).with_name("protected.toml").read_text(encoding="utf-8")
    groups: dict[str, dict[str, str]] = tomllib.loads(text)
    return MappingProxyType(groups)


@cache
def default_patterns() -> tuple[str, ...]:
    """Return all patterns of the list: the default of `[policy] protected`."""
    return tuple(pattern for group in protected_groups().values() for pattern in group)


@cache
def lock_files() -> tuple[str, ...]:
    """Return globs on whole paths for the lock files of the list."""
    return tuple(map(_whole_path, protected_groups()["locks"]))


def is_protected_path(path: str, patterns: Sequence[str]) -> bool:
    """Return True if the file is protected, or replaces a folder that holds protected files.

    Case, invisible characters and letters that look alike make no difference.
    """
    plain = comparable(path)
    cut = tuple(one.removeprefix(EXCEPT) for one in patterns if one.startswith(EXCEPT))
    if cut and matches_any(cut, plain):
        return False
    held = tuple(one for one in patterns if not one.startswith(EXCEPT))
    # A file or link named `.github` replaces the folder with everything in it.
    return matches_any(held, plain) or matches_any(folder_patterns(held), f"{plain}/")


def is_permitted_path(path: str, globs: Iterable[str]) -> bool:
    """Return True if a glob matches the whole path exactly as it is written."""
    return any(_glob(glob).fullmatch(path) for glob in globs)


def reason_for(path: str) -> str:
    """Return what executes or obeys this file by the list; empty for a pattern of the settings."""
    plain = comparable(path)
    for group in protected_groups().values():
        for pattern, reason in group.items():
            if matches_any((pattern,), plain) or matches_any(
                folder_patterns((pattern,)), f"{plain}/"
            ):
                return reason
    return ""


def permits_every_group(globs: Sequence[str]) -> bool:
    """Return True if the globs together permit changing some file of every group of the list."""
    return bool(globs) and all(
        any(is_permitted_path(path, globs) for pattern in group for path in _examples(pattern))
        for group in protected_groups().values()
    )


def _examples(pattern: str) -> tuple[str, str]:
    """Return a file that the pattern matches, in its highest and in a deeper folder."""
    deep = re.sub(r"\*+|\?", "x", _whole_path(pattern).replace("**/", "packages/a/"))
    return deep.removeprefix("packages/a/"), deep


def _whole_path(pattern: str) -> str:
    """Return the pattern as a glob on whole paths."""
    return pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"


@cache
def _glob(glob: str) -> re.Pattern[str]:
    return re.compile(glob_pattern(glob), re.DOTALL)
