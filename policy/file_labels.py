"""Tags of workspace files, by patterns of their paths from the trusted configuration."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from contracts.entity import Label


@dataclass(frozen=True, kw_only=True)
class FileLabels:
    """`caps` maps patterns such as `hr/**` or `*.pem` to the tags of the matching files.

    `*` matches anything but a slash, `**` matches anything. A pattern without a slash matches
    the file's name in any folder.
    """

    caps: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def label_for(self, path: str) -> Label:
        """Return the tags of the file at this path, relative to the workspace."""
        plain = posixpath.normpath(path).removeprefix("./").casefold()
        matching = [caps for pattern, caps in self.caps.items() if matches_any([pattern], plain)]
        return Label(caps=frozenset().union(*matching))

    @property
    def all_labels(self) -> Label:
        """The tags of data that may contain any file."""
        return Label(caps=frozenset().union(*self.caps.values()))


def matches_any(patterns: Sequence[str], path: str) -> bool:
    """Return True if a path of the workspace matches one of the patterns; case is ignored."""
    path = path.casefold()
    whole_path, name = _compiled(tuple(patterns))
    return bool(whole_path.fullmatch(path) or name.fullmatch(posixpath.basename(path)))


@lru_cache
def folder_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns for the folders that contain matching files, each ending with a slash.

    Folders whose own name has a wildcard are omitted: they would match unrelated files.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        folder = posixpath.dirname(pattern)
        while folder:
            if not re.search(r"[*?]", posixpath.basename(folder)):
                found[f"{folder}/"] = None
            folder = posixpath.dirname(folder)
    return tuple(found)


@lru_cache
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return one expression for whole paths and one for file names."""
    whole_paths = [pattern for pattern in patterns if "/" in pattern]
    names = [pattern for pattern in patterns if "/" not in pattern]
    return _any_of(whole_paths), _any_of(names)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    split = (re.split(r"(\*\*/|\*\*|\*|\?)", pattern.casefold()) for pattern in patterns)
    expressions = (
        "".join(wildcards.get(part, re.escape(part)) for part in parts) for parts in split
    )
    return re.compile("|".join(expressions) or "(?!)", re.DOTALL)
