"""Who a note is for: agent, user, company, each or none of them; eight levels (pure).

What a viewer may see is the list of at most eight scopes that `visible` gives, and nothing
else. The SQL filter, the vectors and the cache all go by the keys of these scopes, so that a
missing id can only make the list shorter.
"""

import json
import unicodedata
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from memory.errors import NoteInvalid

ID_LIMIT = 255
"""Characters that the name of an agent, a user or a company may have."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Whom something is for, or who looks at it. None: for any; of a viewer: not known."""

    agent: str | None = None
    user: str | None = None
    company: str | None = None


EVERYONE = Scope()


class ScopeLevel(NamedTuple):
    """One row of the table: which of the three ids a scope names."""

    agent: bool
    user: bool
    company: bool


LEVELS = (
    ScopeLevel(agent=True, user=True, company=True),
    ScopeLevel(agent=True, user=True, company=False),
    ScopeLevel(agent=True, user=False, company=True),
    ScopeLevel(agent=False, user=True, company=True),
    ScopeLevel(agent=True, user=False, company=False),
    ScopeLevel(agent=False, user=True, company=False),
    ScopeLevel(agent=False, user=False, company=True),
    ScopeLevel(agent=False, user=False, company=False),
)
"""All levels, the most specific first."""


def scope_level(scope: Scope) -> int:
    """The scope's place among `LEVELS`, from 1 for the most specific to 8 for everyone."""
    named = ScopeLevel(scope.agent is not None, scope.user is not None, scope.company is not None)
    return LEVELS.index(named) + 1


def visible_scopes(viewer: Scope) -> tuple[Scope, ...]:
    """Every scope that this viewer may see, the most specific first; never empty."""
    made = (
        Scope(
            agent=viewer.agent if one.agent else None,
            user=viewer.user if one.user else None,
            company=viewer.company if one.company else None,
        )
        for one in LEVELS
    )
    return tuple(dict.fromkeys(made))


def scope_key(scope: Scope) -> str:
    """What a scope is kept and looked up under; two scopes have the same key only when equal."""
    ids = json.dumps([scope.agent, scope.user, scope.company])
    return sha256(ids.encode()).hexdigest()[:32]


def scope_label(scope: Scope) -> str:
    """The scope in words: `agent native, user ann`, or `everyone`."""
    named = {"agent": scope.agent, "user": scope.user, "company": scope.company}
    return ", ".join(f"{what} {who}" for what, who in named.items() if who) or "everyone"


def validate_scope(scope: Scope) -> Scope:
    """The scope as it is kept: ids trimmed, in one Unicode form; an empty id is none.

    Raises:
        NoteInvalid: an id is too long, or holds signs that nobody can see.
    """
    return Scope(
        agent=_checked("agent", scope.agent),
        user=_checked("user", scope.user),
        company=_checked("company", scope.company),
    )


def _checked(what: str, given: str | None) -> str | None:
    name = unicodedata.normalize("NFC", given or "").strip()
    if len(name) > ID_LIMIT:
        raise NoteInvalid(f"{what} {name[:20]!r}… has {len(name)} characters; {ID_LIMIT} fit")
    if not name.isprintable():
        raise NoteInvalid(
            f"{what} {name[:80]!r} holds signs that cannot be printed: leave them out"
        )
    return name or None
