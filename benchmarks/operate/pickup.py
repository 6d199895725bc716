"""From the moment the worker takes a run to its first node, against a bare Prefect flow."""

import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.chaos.stage import Stage
from benchmarks.operate.worked import (
    NOTHING,
    OWN_WAY,
    deployed_bare,
    deployment_id,
    start,
    worked,
)
from benchmarks.row import Row


def rows(made: Stage, api: str, rounds: int) -> Iterator[Row]:
    """In turn: ours, a bare flow as Prefect starts it, a bare flow as our pool starts it."""
    ours = deployment_id(api, "run-blueprint")
    bare = deployed_bare(made, api, "bare", OWN_WAY)
    alike = deployed_bare(made, api, "bare-alike", {})
    asked = made.ask(NOTHING)
    times: list[tuple[float, float, float]] = []
    for _ in range(rounds + 1):
        one = worked(api, start(api, ours, asked)).start_s
        two = worked(api, start(api, bare, {})).start_s
        three = worked(api, start(api, alike, {})).start_s
        print(f"  {one:.2f} s, bare {two:.2f} s, alike {three:.2f} s", file=sys.stderr, flush=True)
        times.append((one, two, three))
    first, second, third = (median(column) for column in zip(*times[1:], strict=True))
    yield Row(
        name="worker takes a run to first node",
        ours=first,
        baseline=second,
        ratio=first / second,
        target="at most 1.25",
        note=f"{first / third:.2f} of a bare flow that is one process too",
    )
