"""What the user and the trusted configuration allow: grants, principals, tags."""

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
    """Who may do what. Never from a planner, a model or data.

    `grants` are tool capabilities and releases. `principals` are names and their addresses:
    mail addresses, origins of web pages (`https://wiki.example.org`), names of git remotes.
    `tags` are the data capabilities in use besides `share_with:…`.
    """

    grants: frozenset[str] = frozenset()
    principals: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    tags: frozenset[str] = frozenset()

    def is_known(self, cap: str) -> bool:
        """True for a data capability that means something here."""
        if cap.startswith(SHARE_WITH):
            return bool(principals_in(cap)) and principals_in(cap) <= self.principals.keys()
        return cap in self.tags

    def may_release(self, cap: str, recipients: frozenset[str]) -> bool:
        """True when data with this tag may go to these recipients, all of them."""
        if f"{RELEASE}{cap}" in self.grants:
            return True
        if not cap.startswith(SHARE_WITH) or not recipients:
            return False
        known = (self.principals.get(name, frozenset()) for name in principals_in(cap))
        return recipients <= frozenset().union(*(map(normalized_address, known) for known in known))

    def as_json(self) -> dict[str, Json]:
        """What the policy's version is made of."""
        people: dict[str, Json] = {
            name: sorted(held) for name, held in sorted(self.principals.items())
        }
        return {"grants": sorted(self.grants), "principals": people, "tags": sorted(self.tags)}


def principals_in(cap: str) -> frozenset[str]:
    """The principals of `share_with:bob` or `share_with:ann,bob`."""
    return frozenset(cap.removeprefix(SHARE_WITH).split(",")) - {""}


def normalized_address(text: str) -> str:
    """The one spelling of an address: of a plain URL its origin, all in lower case."""
    text = text.strip().casefold()
    origin = _ORIGIN.match(text)
    return origin[0] if origin else text


def addresses_in(value: Json) -> Iterable[str]:
    """Every address in a recipient's argument: a text, or a list of texts.

    Anything else counts as an address that nobody has.
    """
    if isinstance(value, str):
        yield normalized_address(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from addresses_in(item)
    elif value is not None:
        yield repr(value)
