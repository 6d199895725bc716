"""Nodes beside each other: lanes in the same files, and agents that compete in forks of them.

A lane runs in a thread of its own with the context of the one that began it, so that what
makes nodes visible sees them as children. A run that is interrupted does not wait for
its lanes: they end with their sandbox.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from math import inf
from threading import Thread
from typing import TypeVar

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, PersistentSandbox, SnapshotId
from nodes.types import Agentic, Compete, CompeteEntry, Deterministic, Node, Parallel, step_name

RunLane = Callable[[Sequence[Node], RunContext], RunContext]
"""Runs nodes in order, up to the first that fails, and gives the context with their results."""

SaveLaneWork = Callable[[str, PersistentSandbox], None]
"""Keeps the work of an entrant that did not win, under the entrant's name."""

Made = TypeVar("Made")

_NEW, _OLD = b"\1", b"\2"
_LINES = (
    "diff", "--cached", "--text", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv",
    f"--output-indicator-new={_NEW.decode()}", f"--output-indicator-old={_OLD.decode()}",
)  # fmt: skip
_LINES_LIMIT = 16 * 1024 * 1024
"""Bytes of a change whose lines are counted."""


def run_parallel(node: Parallel, ctx: RunContext, run_lane: Callable[[], RunLane]) -> NodeResult:
    """Run all lanes to their own end; a failure when any of their nodes failed."""
    ended = _at_once([partial(run_lane(), lane, ctx) for lane in node.lanes])
    results = {k: r for after in ended for k, r in after.results.items() if k not in ctx.results}
    failed = [name for name, result in results.items() if result.status == "failure"]
    ran = NodeResult(
        status="failure" if failed else "success",
        output="\n".join(f"{name}: {result.status}" for name, result in results.items()),
        lanes=results,
    )
    return replace(ran, error=f"failed: {', '.join(failed)}") if failed else ran


def run_compete(
    node: Compete,
    ctx: RunContext,
    *,
    sandbox: PersistentSandbox,
    run_lane_in: Callable[[PersistentSandbox, str], RunLane],
    files: Callable[[str], SnapshotId | None],
    keep: SaveLaneWork,
) -> NodeResult:
    """Let all entrants work in forks of the files as they are, and go on with the winner's.

    One that was under way when the run stopped has its own `files` to go on with.
    """
    base = _git(sandbox, "rev-parse", "HEAD").stdout.decode().strip()
    start = sandbox.snapshot()
    with ExitStack() as stack:
        forks = [
            stack.enter_context(_ending(sandbox.fork(files(entrant.name) or start)))
            for entrant in node.entrants
        ]
        raced = _at_once(
            [
                partial(_race, node, entrant, ctx, fork, base, run_lane_in(fork, entrant.name))
                for fork, entrant in zip(forks, node.entrants, strict=True)
            ]
        )
        passed = [entry for entry in raced if entry.passed]
        named = node.judge(ctx, passed) if passed else None
        winner = named if named in {entry.name for entry in passed} else None
        for fork, entry in zip(forks, raced, strict=True):
            if entry.name == winner:
                sandbox.restore(fork.snapshot())
            else:
                keep(entry.name, fork)
    result = NodeResult(
        status="success" if winner else "failure",
        output="\n".join(_verdict_line(entry, winner) for entry in raced),
        lanes={name: result for entry in raced for name, result in entry.results.items()},
    )
    return result if winner else replace(result, error=_no_winner(passed, named))


def _race(
    node: Compete,
    entrant: Agentic,
    ctx: RunContext,
    fork: PersistentSandbox,
    base: str,
    run_lane: RunLane,
) -> CompeteEntry:
    own = replace(ctx, work_dir=fork.work_dir)
    after = run_lane([entrant], own)
    for step in node.steps:
        check = Deterministic(
            name=step_name(entrant, step.name), description=node.description, exec=step.exec
        )
        after = run_lane([check], after)
    results = {k: r for k, r in after.results.items() if k not in ctx.results}
    return CompeteEntry(name=entrant.name, results=results, lines=_lines_changed(fork, base))


def _no_winner(passed: Sequence[CompeteEntry], named: str | None) -> str:
    if not passed:
        return "no entrant passed the steps"
    known = ", ".join(entry.name for entry in passed)
    return f"the judge named {named!r}, which is none of those that passed: {known}"


def _verdict_line(entry: CompeteEntry, winner: str | None) -> str:
    failed = [name for name, result in entry.results.items() if result.status == "failure"]
    how = f"failed at {', '.join(failed)}" if failed else "passed"
    lines = "countless" if entry.lines == inf else entry.lines
    return f"{entry.name}: {how}, {lines} lines changed{' (won)' * (entry.name == winner)}"


def _lines_changed(fork: PersistentSandbox, base: str) -> float:
    """Lines added and removed since the base, new files included; infinite if git cannot tell.

    By an index of its own, and as text whatever the attributes say: the entrant has its hands in
    both.
    """
    for args in (("read-tree", base), ("add", "--all")):
        if not _git(fork, *args).ok:
            return inf
    told = _git(fork, *_LINES, base)
    if not told.ok or told.truncated:
        return inf
    return sum(line[:1] in {_NEW, _OLD} for line in told.stdout.split(b"\n"))


def _git(fork: PersistentSandbox, *args: str) -> ExecResult:
    argv = ("git", "-c", "core.sparseCheckout=false", *args)
    env = {"GIT_INDEX_FILE": ".git/harness-lines"}
    return fork.exec(Command(argv=argv, env=env, timeout_s=60.0, output_limit=_LINES_LIMIT))


@contextmanager
def _ending(fork: PersistentSandbox) -> Iterator[PersistentSandbox]:
    try:
        yield fork
    finally:
        fork.teardown()


def _at_once(calls: Sequence[Callable[[], Made]]) -> list[Made]:
    """What the calls give, in their order; what the first of them raised is raised."""
    futures: list[Future[Made]] = [Future() for _ in calls]
    for call, future in zip(calls, futures, strict=True):
        lane = copy_context()
        Thread(target=lane.run, args=(_fulfil, call, future), daemon=True).start()
    return [future.result() for future in futures]


def _fulfil(call: Callable[[], Made], future: Future[Made]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is raised where the lanes are waited for
        future.set_exception(error)
