"""What a run offers to the install of its project: package indexes, and a kept environment."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class Installs(Protocol):
    """Package indexes for installs until the first agent works, and the environment of the run."""

    def unreachable(self, index: str) -> str:
        """Return why installs cannot reach this package index, such as `python`; "" if they can.

        The answer stays the same for the whole run.
        """
        ...

    def network(self, indexes: Collection[str]) -> AbstractContextManager[Mapping[str, str] | None]:
        """Open a way out to these package indexes, such as `python`, until the block ends.

        It gives the variables that lead the clients there; None after an agent has begun.
        """
        ...

    def kept(self, install: Sequence[str]) -> str | None:
        """Return a line about the environment in which this command has run, or None.

        None also after an agent has begun: what it changed is not in the environment.
        """
        ...

    def keep(self, install: Sequence[str], after: Collection[str]) -> None:
        """Keep the sandbox's files for later runs, which then need not run this command.

        `after` names the nodes before: if one may have changed files, nothing is kept.
        """
        ...
