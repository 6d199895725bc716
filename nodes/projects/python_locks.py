"""Versions that the lock files of uv, Poetry and PDM give, as constraints for pip.

A constraint installs nothing: it only decides the version of what is installed anyway.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from contracts.json import as_mapping, as_mappings
from nodes.projects.types import ProjectFiles

_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_VERSION = re.compile(r"\d[\w.!+-]*")
_ELSEWHERE = ("git", "path", "url", "vcs", "directory", "archive")
"""Keys of PDM and pylock for packages that come from no index."""


def locked_versions(files: ProjectFiles) -> tuple[str, str]:
    """Return the name of the lock file and the text of its constraints; both empty without one.

    A package that is locked in several versions, for several platforms, is left to pip.
    """
    name = next((one for one in _LOCKS if one in files.names), "")
    versions = defaultdict[str, set[str]](set)
    for package, version in _packages(files, name):
        versions[package].add(version)
    lines = [f"{one}=={min(found)}\n" for one, found in versions.items() if len(found) == 1]
    return (name, "".join(sorted(lines))) if lines else ("", "")


def _packages(files: ProjectFiles, lock: str) -> Iterator[tuple[str, str]]:
    data = files.toml(lock)
    for package in as_mappings(data.get("package") or data.get("packages")):
        source = as_mapping(package.get("source"))
        is_of_index = not source or "registry" in source or source.get("type") == "legacy"
        name, version = str(package.get("name")), str(package.get("version"))
        if not is_of_index or any(key in package for key in _ELSEWHERE):
            continue
        if _NAME.fullmatch(name) and _VERSION.fullmatch(version):
            yield name, version
