"""Finds entities: by their ids, and by where they stand in the graph. Pure."""

from collections import deque
from collections.abc import Callable, Iterable

from policy.errors import EntityNotFound
from policy.log.history import History

Neighbours = Callable[[str], Iterable[str]]
"""Where one gets from an entity in one step."""


def find_entity(history: History, prefix: str) -> str:
    """The id of the entity that begins so, or of the one that the event beginning so made.

    Raises:
        EntityNotFound: none, or several.
    """
    found = [name for name in history.entities if name.startswith(prefix)] if prefix else []
    if not found and prefix:
        events = [e for name, e in history.events.items() if name.startswith(prefix)]
        found = [name for event in events for name in event.produces]
    if len(found) != 1:
        many = f"{len(found)} entities begin" if found else "there is no entity"
        raise EntityNotFound(f"{many} with {prefix!r}: `harness events log` names events")
    return found[0]


def within_steps(start: str, neighbours: Neighbours, *, steps: int = 1) -> dict[str, int]:
    """All that is at most so many steps away, and how many steps that is; the start is at 0."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        if found[here] == steps:
            continue
        for name in neighbours(here):
            if name not in found:
                found[name] = found[here] + 1
                waiting.append(name)
    return found


def on_paths_between(start: str, end: str, onward: Neighbours, back: Neighbours) -> frozenset[str]:
    """Everything that lies on any path from start to end, both included; empty without a path."""
    ahead = within_steps(start, onward, steps=-1).keys()
    behind = within_steps(end, back, steps=-1).keys()
    return frozenset(ahead & behind) if end in ahead else frozenset()
