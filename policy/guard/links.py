"""The symbolic links of a tree: by which other names its files are read.

With a link `.husky -> tools/husky` the file `tools/husky/pre-commit` is read as
`.husky/pre-commit`, too. Links may be hostile: whatever they are, the work is bounded.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from posixpath import dirname

from policy.errors import TooManyLinks

MAX_HOPS = 40
"""Links that Linux follows to open one path."""

MAX_PATH_CHARS = 4_096
"""Characters; Linux opens nothing by a longer one."""

BUDGET = 100_000_000
"""What following the links of one tree may cost, in characters of the paths that are looked at."""

_STEP = 100
"""What looking at a path costs besides its characters."""


class SymbolicLinks:
    """The links of one tree, from the path of each to what it says.

    `budget` is spent by following them; once it is gone every question raises.
    """

    def __init__(self, targets: Mapping[str, str], *, budget: int = BUDGET) -> None:
        self._targets = targets
        self._left = budget
        self._into: defaultdict[str, list[str]] = defaultdict(list)
        self._through: defaultdict[str, list[str]] = defaultdict(list)
        self._loops: set[str] = set()
        try:
            for link in targets:
                self._follow(link)
        except TooManyLinks:
            self._left = 0

    def names_of(self, path: str) -> Iterator[str]:
        """The path, and every other name that links give to the file there.

        A link whose way leads over the path itself is one of the names: what it leads to changes.
        Names that go round in a loop more than once are left out.

        Raises:
            LinksTooMany: following them all would cost more than the budget.
        """
        yield path
        if not self._targets:
            return
        seen = {path}
        found: deque[tuple[str, frozenset[str]]] = deque([(path, frozenset())])
        while found:
            name, used = found.popleft()
            for link, other in self._others(name):
                again = link in used or (link in self._loops and not self._loops.isdisjoint(used))
                if not again and other not in seen and len(other) <= MAX_PATH_CHARS:
                    seen.add(other)
                    found.append((other, used | {link}))
                    yield other

    def _others(self, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split("/")
        self._spend(len(parts) * len(name))
        for count in range(len(parts) + 1):
            for link in self._into.get("/".join(parts[:count]).casefold(), ()):
                self._spend(len(link))
                yield link, "/".join((link, *parts[count:]))
        for link in self._through.get(name.casefold(), ()):
            self._spend(len(link))
            yield link, link

    def _follow(self, link: str) -> None:
        """Note where the link leads, and over which paths; one that leads out leads nowhere."""
        here = dirname(link).split("/") if "/" in link else []
        ahead = [*reversed(self._targets[link].split("/"))]
        hops = 1
        if self._targets[link].startswith("/"):
            return
        while ahead:
            part = ahead.pop()
            if part == ".." and not here:
                return
            if part in ("", ".", ".."):
                here = here[:-1] if part == ".." else here
                continue
            here.append(part)
            path = "/".join(here)
            self._spend(len(path))
            self._through[path.casefold()].append(link)
            target = self._targets.get(path)
            if target is None:
                continue
            hops += 1
            if hops > MAX_HOPS or target.startswith("/"):
                return
            self._spend(len(target))
            here.pop()
            ahead += reversed(target.split("/"))
        place = "/".join(here)
        self._into[place.casefold()].append(link)
        if not place or f"{link}/".startswith(f"{place}/"):
            self._loops.add(link)

    def _spend(self, cost: int) -> None:
        self._left -= cost + _STEP
        if self._left < 0:
            raise TooManyLinks("the symbolic links of the repository are too many to follow")
