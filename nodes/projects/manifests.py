"""Which files of a repository decide what an install lays down, and which package indexes it needs.

An install is the same for two commits if these files are: its result can be used for both.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Manifests:
    """The files of one ecosystem; both patterns match a file's last name.

    `index` names the package index that its installs need. `sources` are files that an install
    compiles into its result.
    """

    index: str
    files: re.Pattern[str]
    sources: re.Pattern[str] = re.compile(r"(?!)")


MANIFESTS = (
    Manifests(
        index="python",
        files=re.compile(
            r"pyproject\.toml|setup\.(py|cfg)|[\w.-]*requirements[\w.-]*\.(txt|in)|constraints.*\.txt"
            r"|Pipfile(\.lock)?|(poetry|uv|pdm)\.lock|pylock\.toml|tox\.ini|noxfile\.py|MANIFEST\.in"
        ),
        sources=re.compile(
            r".*\.(c|cc|cpp|cxx|h|hh|hpp|pyx|pxd|pxi|f|f90|rs|go|swg|i)|meson\.build"
        ),
    ),
    Manifests(
        index="node",
        files=re.compile(
            r"package(-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-(lock|workspace)\.yaml"
            r"|bun\.lockb?|\.npmrc|\.yarnrc(\.yml)?|binding\.gyp"
        ),
        sources=re.compile(r".*\.(c|cc|cpp|cxx|h|hh|hpp)"),
    ),
)
_IN_FOLDER = re.compile(r"(^|/)requirements/[^/]+$")
_VENDORED = re.compile(r"(^|/)(node_modules|vendor|third_party|testdata|fixtures)/")


def install_inputs(paths: Iterable[str]) -> list[str]:
    """Return those of a repository's paths that decide what an install lays down, sorted."""
    own = sorted(path for path in paths if not _VENDORED.search(path))
    here = [one for one in MANIFESTS if any(_is_manifest(one, path) for path in own)]
    return [
        path
        for path in own
        if any(_is_manifest(one, path) or one.sources.fullmatch(_last(path)) for one in here)
    ]


def package_indexes(paths: Collection[str]) -> tuple[str, ...]:
    """Return the names of the package indexes that installs of these files need."""
    return tuple(one.index for one in MANIFESTS if any(_is_manifest(one, p) for p in paths))


def _is_manifest(manifests: Manifests, path: str) -> bool:
    is_listed = manifests.index == "python" and bool(_IN_FOLDER.search(path))
    return is_listed or bool(manifests.files.fullmatch(_last(path)))


def _last(path: str) -> str:
    return path.rpartition("/")[2]
