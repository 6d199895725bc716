"""Which tags the files of a workspace carry, by their paths; from trusted configuration."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from contracts.entity import Label


@dataclass(frozen=True, kw_only=True)
class FileLabels:
    """`caps` maps patterns such as `hr/**` or `*.pem` to the tags of the files that match.

    `*` stands for anything but a slash, `**` for anything; a pattern without a slash matches
    the file's name in any folder.
    """

    caps: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def label_for(self, path: str) -> Label:
        """The tags of the file at this path, relative to the workspace."""
        plain = posixpath.normpath(path).removeprefix("./").casefold()
        held = [caps for pattern, caps in self.caps.items() if matches_any([pattern], plain)]
        return Label(caps=frozenset().union(*held))

    @property
    def all_labels(self) -> Label:
        """The tags of whatever may hold any file."""
        return Label(caps=frozenset().union(*self.caps.values()))


def matches_any(patterns: Sequence[str], path: str) -> bool:
    """Whether a path of the workspace falls under one of the patterns, whatever its case."""
    path = path.casefold()
    wholes, names = _compiled(tuple(patterns))
    return bool(wholes.fullmatch(path) or names.fullmatch(posixpath.basename(path)))


@lru_cache
def folder_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns of the folders that files of these patterns lie in, each with a slash at its end.

    Folders whose own name has a wildcard are left out: that would be any file beside them.
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
    """Those that are for whole paths, and those for names."""
    wholes = [pattern for pattern in patterns if "/" in pattern]
    names = [pattern for pattern in patterns if "/" not in pattern]
    return _any_of(wholes), _any_of(names)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = (re.split(r"(\*\*/|\*\*|\*|\?)", pattern.casefold()) for pattern in patterns)
    read = ("".join(wild.get(part, re.escape(part)) for part in some) for some in parts)
    return re.compile("|".join(read) or "(?!)", re.DOTALL)
