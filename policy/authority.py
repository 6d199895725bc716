"""Permissions from the user and the trusted configuration: grants, principals, tags."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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
    the data capabilities in use besides `share_with:…`.
    """

    grants: frozenset[str] = frozenset()
    principals: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    tags: frozenset[str] = frozenset()

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
        return {"grants": sorted(self.grants), "principals": principals, "tags": sorted(self.tags)}


def principals_in(cap: str) -> frozenset[str]:
    """Return the principals named by `share_with:bob` or `share_with:ann,bob`."""
    return frozenset(cap.removeprefix(SHARE_WITH).split(",")) - {""}


def normalized_address(text: str) -> str:
    """Return an address in lower case, a plain URL reduced to its origin."""
    text = text.strip().casefold()
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
