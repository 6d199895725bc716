"""How soon a run begins, how soon it is gone, what a long queue costs, and a machine that dies.

`python -m benchmarks.run operate 200` is the full size;
`python -m benchmarks.operate.rows 24 queue`
does one of its parts: pickup, cancel, queue, machines.
"""

import sys
from collections.abc import Callable, Iterator, Mapping

from benchmarks.chaos.stage import Stage, stage
from benchmarks.operate import cancels, machines, pickup, queue
from benchmarks.row import Row
from flows.services import prefect_server

SIZE = 16

PARTS: Mapping[str, Callable[[Stage, str, int], Iterator[Row]]] = {
    "pickup": lambda made, api, size: pickup.rows(made, api, min(7, 2 + size // 10)),
    "cancel": lambda made, api, size: cancels.rows(made, api, min(30, 1 + size // 6)),
    "queue": queue.rows,
    "machines": machines.rows,
}


def rows(size: int = SIZE, parts: tuple[str, ...] = tuple(PARTS)) -> Iterator[Row]:
    """A queue of `size` runs, and of pick-ups and cancels as many as go with it."""
    for part in parts:
        with stage(with_engine=False) as made:
            yield from PARTS[part](made, prefect_server.server_daemon(made.settings).up().url, size)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    chosen = tuple(word for word in sys.argv[1:] if word in PARTS) or tuple(PARTS)
    for row in rows(numbers[0] if numbers else SIZE, chosen):
        print(row, flush=True)
