"""The trusted configuration: grants, principals, tags, and the tags of files by their paths."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from contracts.entity import Label
from contracts.json import Json

SHARE_WITH = "share_with:"
RELEASE = "release:"
"""`release:pii` is the grant by which data tagged `pii` may leave."""

_ORIGIN = re.compile(r"[a-z]+://[a-z0-9.-]+(?::\d+)?(?=$|[/?#])")


@dataclass(frozen=True, kw_only=True)
class Authority:
    """All permissions of a run. Planners, models and data never contribute to it.

    `grants` are tool capabilities and releases. `principals` maps names to addresses: mail
    addresses, origins of web pages (`https://wiki.example.org`), names of git remotes. `tags` are
    the data capabilities in use besides `share_with:…`. `named` is what the user's prompt names
    (`policy.plan.named`).
    """

    grants: frozenset[str] = frozenset()
    principals: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    tags: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    def is_known(self, cap: str) -> bool:
        """Return True if this data capability is defined: by a tag or by known principals."""
        if cap.startswith(SHARE_WITH):
            return bool(principals_in(cap)) and principals_in(cap) <= self.principals.keys()
        return cap in self.tags

    def may_release(self, cap: str, recipients: frozenset[str]) -> bool:
        """Return True if data with this tag may go to every one of these recipients."""
        if f"{RELEASE}{cap}" in self.grants:
            return True
        if not cap.startswith(SHARE_WITH) or not recipients:
            return False
        addresses = (self.principals.get(name, frozenset()) for name in principals_in(cap))
        return recipients <= frozenset().union(*(map(normalized_address, a) for a in addresses))

    def as_json(self) -> dict[str, Json]:
        """Return all permissions as JSON, for the version of the policy."""
        principals: dict[str, Json] = {
            name: sorted(addresses) for name, addresses in sorted(self.principals.items())
        }
        return {
            "grants": sorted(self.grants),
            "principals": principals,
            "tags": sorted(self.tags),
            "named": sorted(self.named),
        }


@dataclass(frozen=True, kw_only=True)
class FileLabels:
    """`caps` maps patterns such as `hr/**` or `*.pem` to the tags of the matching files.

    `*` matches anything but a slash, `**` matches anything. A pattern without a slash matches
    the file's name in any folder, and `/name` only in the root folder.
    """

    caps: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def label_for(self, path: str) -> Label:
        """Return the tags of the file at this path, relative to the workspace."""
        # Case is ignored, because some file systems open HR/x and hr/x as one file.
        plain = posixpath.normpath(path).removeprefix("./").casefold()
        matching = [caps for pattern, caps in self.caps.items() if matches_any([pattern], plain)]
        return Label(caps=frozenset().union(*matching))

    @property
    def all_labels(self) -> Label:
        """The tags of data that may contain any file."""
        return Label(caps=frozenset().union(*self.caps.values()))


def principals_in(cap: str) -> frozenset[str]:
    """Return the principals named by `share_with:bob` or `share_with:ann,bob`."""
    return frozenset(cap.removeprefix(SHARE_WITH).split(",")) - {""}


def normalized_address(text: str) -> str:
    """Return an address in lower case, a plain URL reduced to its origin."""
    text = text.strip().casefold()
    # https://wiki.example.org@evil.example does not match: its origin is not wiki.example.org.
    origin = _ORIGIN.match(text)
    return origin[0] if origin else text


def addresses_in(value: Json) -> Iterable[str]:
    """Yield every address of a recipient's argument, which is a string or a list of strings.

    Any other value yields an address that no principal has, so that it is refused.
    """
    if isinstance(value, str):
        yield normalized_address(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from addresses_in(item)
    elif value is not None:
        yield repr(value)


def matches_any(patterns: Sequence[str], path: str) -> bool:
    """Return True if a path of the workspace matches one of the patterns; case is ignored."""
    path = path.casefold()
    whole_path, name = _compiled(tuple(patterns))
    return bool(whole_path.fullmatch(path) or name.fullmatch(posixpath.basename(path)))


@lru_cache(maxsize=1024)
def folder_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns for the folders that contain matching files, each ending with a slash.

    Folders whose own name has a wildcard are omitted: they would match unrelated files.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        folder = posixpath.dirname(pattern)
        while folder.strip("/"):
            if not re.search(r"[*?]", posixpath.basename(folder)):
                found[f"{folder}/"] = None
            folder = posixpath.dirname(folder)
    return tuple(found)


def glob_pattern(glob: str) -> str:
    """Return a glob as a regular expression for whole paths."""
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    return "".join(wildcards.get(part, re.escape(part)) for part in parts)


@lru_cache(maxsize=1024)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return one expression for whole paths and one for file names."""
    whole_paths = [pattern.removeprefix("/") for pattern in patterns if "/" in pattern]
    names = [pattern for pattern in patterns if "/" not in pattern]
    return _any_of(whole_paths), _any_of(names)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    expressions = (glob_pattern(pattern.casefold()) for pattern in patterns)
    return re.compile("|".join(expressions) or "(?!)", re.DOTALL)
