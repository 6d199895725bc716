"""Which files of a repository decide what an install lays down, and which package indexes it needs.

An install is the same for two commits if these files are: its result can be used for both.
"""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from nodes.projects.ecosystems import Ecosystem, ecosystems

_VENDORED = re.compile(r"(^|/)(node_modules|vendor|third_party|testdata|fixtures)/")


def install_inputs(paths: Iterable[str]) -> list[str]:
    """Return those of a repository's paths that decide what an install lays down, sorted."""
    own = sorted(path for path in paths if not _VENDORED.search(path))
    here = [row for row in ecosystems() if any(_is_manifest(row, path) for path in own)]
    return [
        path
        for path in own
        if any(_is_manifest(row, path) or _matches(path, row.sources) for row in here)
    ]


def is_compiled(kind: str, path: str) -> bool:
    """Return True if the install of a project of this kind compiles such a file into its result."""
    return any(row.name == kind and _matches(path, row.sources) for row in ecosystems())


def package_indexes(paths: Collection[str]) -> tuple[str, ...]:
    """Return the names of the package indexes that installs of these files need."""
    return tuple(
        row.index
        for row in ecosystems()
        if row.index and any(_is_manifest(row, path) for path in paths)
    )


def _is_manifest(row: Ecosystem, path: str) -> bool:
    return _matches(path, row.manifests)


def _matches(path: str, patterns: Collection[str]) -> bool:
    """Match the end of a path to patterns, which mostly have only a last name."""
    return any(fnmatchcase(path, one) or fnmatchcase(path, f"*/{one}") for one in patterns)
