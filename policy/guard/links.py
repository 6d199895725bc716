"""The symbolic links of a repository, and the further names that they give to its files.

With a link `.husky -> tools/husky` the file `tools/husky/pre-commit` is also read as
`.husky/pre-commit`. Links may be hostile, so the work spent on them is bounded.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from posixpath import dirname

from policy.errors import TooManyLinks
from policy.guard.look_alikes import comparable

MAX_PATH_CHARS = 4_096
"""Linux opens no longer path (PATH_MAX)."""

MAX_HOPS = 40
"""Links that Linux follows to open one path."""

BUDGET = 100_000_000
"""Work allowed for the links of one tree, in characters of the paths looked at."""

_PATH_COST = 100
"""Fixed cost of looking at one path, besides its characters."""


class SymbolicLinks:
    """The links of one tree: `targets` maps the path of each link to its target.

    Following links spends `budget`; once it is used up, `names_of` raises.
    """

    def __init__(self, targets: Mapping[str, str], *, budget: int = BUDGET) -> None:
        self._targets = targets
        self._budget = budget
        self._leading_to: defaultdict[str, list[str]] = defaultdict(list)
        self._leading_over: defaultdict[str, list[str]] = defaultdict(list)
        self._loops: set[str] = set()
        self.outside: list[str] = []
        """Links that lead out of the repository."""
        try:
            for link in targets:
                self._follow(link)
        except TooManyLinks:
            self._budget = 0

    def names_of(self, path: str) -> Iterator[str]:
        """Yield the path, and every other name that links give to the file there.

        A link whose way leads over the path is one of the names, because a change of the path
        changes its destination. Names that follow a loop more than once are omitted.

        Raises:
            TooManyLinks: following all links would cost more than the budget.
        """
        yield path
        if not self._targets:
            return
        seen = {path}
        queue: deque[tuple[str, frozenset[str]]] = deque([(path, frozenset())])
        while queue:
            name, used = queue.popleft()
            for link, other in self._other_names(name):
                # A link to a folder above itself would give longer and longer names.
                again = link in used or (link in self._loops and not self._loops.isdisjoint(used))
                if not again and other not in seen and len(other) <= MAX_PATH_CHARS:
                    seen.add(other)
                    queue.append((other, used | {link}))
                    yield other

    def _other_names(self, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split("/")
        self._spend(len(parts) * len(name))
        for count in range(len(parts) + 1):
            for link in self._leading_to.get(comparable("/".join(parts[:count])), ()):
                self._spend(len(link))
                yield link, "/".join((link, *parts[count:]))
        for link in self._leading_over.get(comparable(name), ()):
            self._spend(len(link))
            yield link, link

    def _follow(self, link: str) -> None:
        """Store the destination of a link and the paths on the way, if it stays in the tree."""
        folder = dirname(link).split("/") if "/" in link else []
        remaining = [*reversed(self._targets[link].split("/"))]
        hops = 1
        if self._targets[link].startswith("/"):
            self.outside.append(link)
            return
        while remaining:
            part = remaining.pop()
            if part == ".." and not folder:
                self.outside.append(link)
                return
            if part in ("", ".", ".."):
                folder = folder[:-1] if part == ".." else folder
                continue
            folder.append(part)
            path = "/".join(folder)
            self._spend(len(path))
            # Case is ignored: on macOS and Windows `Tools` and `tools` are one folder.
            self._leading_over[comparable(path)].append(link)
            target = self._targets.get(path)
            if target is None:
                continue
            hops += 1
            # An absolute target does not lead into the clones of other people.
            if hops > MAX_HOPS or target.startswith("/"):
                return
            self._spend(len(target))
            folder.pop()
            remaining += reversed(target.split("/"))
        destination = "/".join(folder)
        self._leading_to[comparable(destination)].append(link)
        if not destination or f"{link}/".startswith(f"{destination}/"):
            self._loops.add(link)

    def _spend(self, cost: int) -> None:
        self._budget -= cost + _PATH_COST
        if self._budget < 0:
            raise TooManyLinks("the repository has too many symbolic links to follow")
