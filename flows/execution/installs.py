"""Installs of one run: the kept environment, and package indexes until the first agent works."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import NamedTuple

from blueprints.types import Blueprint
from contracts.errors import Unavailable
from contracts.sandbox import PersistentSandbox
from flows.config.settings import Settings
from flows.execution.egress import open_way_out, why_unreachable
from flows.runs.request import ResolvedRequest
from nodes.types import Preflight
from sandbox.egress import OnEvent
from sandbox.environments import Environment, EnvironmentStore
from sandbox.index_routes import Route
from sandbox.repos import BaseCommit

MB = 1 << 20
SWITCH = "[sandbox] install_network = false"
"""What switches the network of installs off."""


class Start(NamedTuple):
    """Where a run's sandbox starts: an image, or the kept environment with this key."""

    key: str
    image: str
    environment: Environment | None


class RunInstalls:
    """`contracts.installs.Installs` of one run."""

    def __init__(
        self,
        settings: Settings,
        store: EnvironmentStore,
        request: ResolvedRequest,
        start: Start | None,
        on_event: OnEvent,
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._start = start
        self._blueprint = request.definition
        self._is_closed = not request.way_out
        self._on_event = on_event
        self._tell = tell
        self._sandbox: PersistentSandbox | None = None
        self._base: BaseCommit | None = None
        self._unreachable: dict[str, str] = {}
        self._agent_began = False
        self._open = ExitStack()
        self._opened_at = 0.0

    def follow(self, sandbox: PersistentSandbox, base: BaseCommit, *, fresh: bool) -> None:
        """Serve the nodes of this sandbox, which started from the commit.

        A `fresh` one did not start from the kept environment.
        """
        self._sandbox, self._base = sandbox, base
        if fresh and self._start is not None:
            self._start = self._start._replace(environment=None)

    def agent_begins(self) -> None:
        """End the way out for good: an agent is about to work."""
        self._agent_began = True
        self._open.close()

    def unreachable(self, index: str) -> str:
        """Return why this index cannot be reached; see `Installs.unreachable`."""
        if index not in self._unreachable:
            self._unreachable[index] = self._try(index)
        return self._unreachable[index]

    def _try(self, index: str) -> str:
        if not self._settings.sandbox.installs_online:
            return SWITCH
        kept = self._start.environment if self._start else None
        if self._sandbox is None or (kept is not None and index not in kept.unreachable):
            return ""
        return why_unreachable(self._sandbox, index)

    @contextmanager
    def network(self, indexes: Collection[str]) -> Iterator[Mapping[str, str] | None]:
        """Open a way out to these indexes; see `Installs.network`."""
        self._opened_at = monotonic()
        if self._agent_began or self._sandbox is None:
            yield None
            return
        if not self._settings.sandbox.installs_online:
            yield {}
            return
        with self._open as stack:
            opening = open_way_out(
                self._sandbox,
                self._settings.sandbox,
                self._blueprint.egress,
                is_closed=self._is_closed,
                indexes=[one for one in indexes if not self.unreachable(one)],
                on_event=self._on_event,
                on_route=self._report,
            )
            yield stack.enter_context(opening)

    def kept(self, install: Sequence[str]) -> str | None:
        """Return a line about the environment in which this has run; see `Installs.kept`."""
        found = self._start.environment if self._start else None
        if found is None or self._agent_began or found.install != tuple(install):
            return None
        return (
            f"kept environment {found.name} of {found.created}: {shlex.join(install)!r} took "
            f"{found.seconds:g} s then, and is not run again (`harness env rm {found.name}` makes "
            "the next run install anew)"
        )

    def keep(self, install: Sequence[str], after: Collection[str]) -> None:
        """Keep the environment if only preflights ran before; see `Installs.keep`."""
        start, sandbox, base = self._start, self._sandbox, self._base
        limit = self._settings.sandbox.environments_mb * MB
        if start is None or sandbox is None or base is None or self._agent_began or not limit:
            return
        if not _only_preflights(self._blueprint, after):
            return
        seconds = monotonic() - self._opened_at
        # The run goes on without: an engine whose disk is full refuses, for example.
        with suppress(Unavailable):
            self._store.keep(
                start.key,
                base,
                sandbox,
                start=start.image,
                install=install,
                seconds=seconds,
                unreachable=[one for one, reason in self._unreachable.items() if reason],
            )
            self._store.shrink(limit)

    def _report(self, route: Route) -> None:
        for notice in route.notices:
            self._tell(notice)
        names = ", ".join(host.removesuffix(":443") for host in route.hosts)
        if names:
            self._tell(f"the install could reach {names} ({SWITCH} switches this off)")


def _only_preflights(blueprint: Blueprint, names: Collection[str]) -> bool:
    harmless = {node.name for node in blueprint.nodes if isinstance(node, Preflight)}
    return harmless.issuperset(names)
