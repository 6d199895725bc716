"""Scopes of notes and examples: an agent, a user and a company, each of them optional (pure).

A viewer sees exactly the scopes that `visible_scopes` returns, eight at most. SQL filters, vectors
and caches all use the keys of these scopes, so a missing id can only hide notes, never show more.
"""

import json
import unicodedata
from dataclasses import dataclass
from hashlib import sha256
from itertools import product, starmap
from typing import NamedTuple

from memory.errors import EntryInvalid

ID_LIMIT = 255
"""Characters that the name of an agent, a user or a company may have."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The audience of a note, or the viewer of notes. None means any, for a viewer unknown."""

    agent: str | None = None
    user: str | None = None
    company: str | None = None


EVERYONE = Scope()


class ScopeLevel(NamedTuple):
    """Which of the three ids a scope names."""

    agent: bool
    user: bool
    company: bool


LEVELS = tuple(sorted(starmap(ScopeLevel, product((True, False), repeat=3)), key=sum, reverse=True))
"""All eight levels, the most specific first; agent goes before user, user before company."""


def scope_level(scope: Scope) -> int:
    """Return the position of the scope in `LEVELS`: 1 is the most specific, 8 is everyone."""
    named = ScopeLevel(scope.agent is not None, scope.user is not None, scope.company is not None)
    return LEVELS.index(named) + 1


def visible_scopes(viewer: Scope) -> tuple[Scope, ...]:
    """Return every scope that this viewer may see, the most specific first; never empty."""
    scopes = (
        Scope(
            agent=viewer.agent if level.agent else None,
            user=viewer.user if level.user else None,
            company=viewer.company if level.company else None,
        )
        for level in LEVELS
    )
    return tuple(dict.fromkeys(scopes))


def scope_key(scope: Scope) -> str:
    """Return the stored key of a scope. Different scopes have different keys."""
    # JSON keeps the ids apart: no id can be written so that it passes for two others.
    ids = json.dumps([scope.agent, scope.user, scope.company])
    return sha256(ids.encode()).hexdigest()[:32]


def scope_label(scope: Scope) -> str:
    """Return the scope as text: `agent native, user ann`, or `everyone`."""
    named = {"agent": scope.agent, "user": scope.user, "company": scope.company}
    return ", ".join(f"{name} {id_}" for name, id_ in named.items() if id_) or "everyone"


def validate_scope(scope: Scope) -> Scope:
    """Return the scope with trimmed ids in Unicode form NFC; an empty id becomes None.

    Raises:
        EntryInvalid: an id is too long, or has characters that cannot be printed.
    """
    return Scope(
        agent=_validate_id("agent", scope.agent),
        user=_validate_id("user", scope.user),
        company=_validate_id("company", scope.company),
    )


def _validate_id(field: str, value: str | None) -> str | None:
    # Keyboards spell one name in several Unicode forms; viewer and note must agree on one.
    name = unicodedata.normalize("NFC", value or "").strip()
    if len(name) > ID_LIMIT:
        raise EntryInvalid(
            f"{field} {name[:20]!r}… has {len(name)} characters; at most {ID_LIMIT} are allowed"
        )
    # Direction marks would let one id look like another in lists.
    if not name.isprintable():
        raise EntryInvalid(
            f"{field} {name[:80]!r} has characters that cannot be printed: remove them"
        )
    return name or None
