"""Which tags the files of a workspace carry, by their paths; from trusted configuration."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.entity import Label


@dataclass(frozen=True, kw_only=True)
class FileLabels:
    """`caps` maps patterns such as `hr/**` or `*.pem` to the tags of the files that match.

    `*` stands for anything but a slash, `**` for anything; a pattern without a slash matches
    the file's name in any folder.
    """

    caps: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, path: str) -> Label:
        """The tags of the file at this path, relative to the workspace."""
        plain = posixpath.normpath(path).removeprefix("./").casefold()
        held = [caps for pattern, caps in self.caps.items() if matches(pattern, plain)]
        return Label(caps=frozenset().union(*held))

    @property
    def all(self) -> Label:
        """The tags of whatever may hold any file."""
        return Label(caps=frozenset().union(*self.caps.values()))


def matches(pattern: str, path: str) -> bool:
    """Whether a path of the workspace falls under the pattern, whatever its case."""
    pattern, path = pattern.casefold(), path.casefold()
    where = path if "/" in pattern else posixpath.basename(path)
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(wild.get(p, re.escape(p)) for p in parts), where, re.S) is not None
