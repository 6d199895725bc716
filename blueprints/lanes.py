"""Parallel lanes in the same files, and agents that compete on forks of the files.

Each lane runs in a thread with a copy of the caller's context variables, so that its Prefect tasks
appear below the right flow. A run that is interrupted does not wait for its lanes: they end with
their sandbox.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeVar

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, PersistentSandbox, SnapshotId
from nodes.time_limit import start_in_thread
from nodes.types import Agentic, Compete, CompeteEntry, Deterministic, Node, Parallel, step_name

RunLane = Callable[[Sequence[Node], RunContext], RunContext]
"""Run nodes in order up to the first failure, and return the context with their results."""

SaveLaneWork = Callable[[str, PersistentSandbox], None]
"""Save the work of an entrant that did not win, under the entrant's name."""

_T = TypeVar("_T")

# With + and -, header lines such as `+++ b/file` would count as changes.
_NEW, _OLD = b"\1", b"\2"
_DIFF = (
    "diff", "--cached", "--text", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv",
    f"--output-indicator-new={_NEW.decode()}", f"--output-indicator-old={_OLD.decode()}",
)  # fmt: skip
_DIFF_LIMIT = 16 * 1024 * 1024
"""Lines of a larger diff are not counted."""


def run_parallel(node: Parallel, ctx: RunContext, lane_runner: Callable[[], RunLane]) -> NodeResult:
    """Run all lanes to their ends. The node fails if any inner node fails."""
    contexts = _run_all([partial(lane_runner(), lane, ctx) for lane in node.lanes])
    results = {name: r for after in contexts for name, r in _new_results(after, ctx).items()}
    failed = [name for name, result in results.items() if result.status == "failure"]
    return NodeResult(
        status="failure" if failed else "success",
        output="\n".join(f"{name}: {result.status}" for name, result in results.items()),
        error=f"failed: {', '.join(failed)}" if failed else None,
        lanes=results,
    )


def run_compete(
    node: Compete,
    ctx: RunContext,
    *,
    sandbox: PersistentSandbox,
    lane_runner: Callable[[PersistentSandbox, str], RunLane],
    saved_files: Callable[[str], SnapshotId | None],
    save_work: SaveLaneWork,
) -> NodeResult:
    """Run all entrants on forks of the files, and restore the winner's files into the sandbox.

    An entrant that was interrupted continues with its `saved_files`.
    """
    # Read before the agents start: an entrant can move HEAD.
    base = _git(sandbox, "rev-parse", "HEAD").stdout.decode().strip()
    start = sandbox.snapshot()
    with ExitStack() as stack:
        forks: list[PersistentSandbox] = []
        for entrant in node.entrants:
            forks.append(sandbox.fork(saved_files(entrant.name) or start))
            stack.callback(forks[-1].teardown)
        entries = _run_all(
            [
                partial(_compete, node, entrant, ctx, fork, base, lane_runner(fork, entrant.name))
                for fork, entrant in zip(forks, node.entrants, strict=True)
            ]
        )
        passed = [entry for entry in entries if entry.passed]
        # The judge is code of the blueprint, so its answer is checked.
        named = node.judge(ctx, passed) if passed else None
        winner = named if named in {entry.name for entry in passed} else None
        for fork, entry in zip(forks, entries, strict=True):
            if entry.name == winner:
                sandbox.restore(fork.snapshot())
            else:
                save_work(entry.name, fork)
    return NodeResult(
        status="success" if winner else "failure",
        output="\n".join(_describe(entry, winner) for entry in entries),
        error=None if winner else _no_winner(passed, named),
        lanes={name: result for entry in entries for name, result in entry.results.items()},
    )


def _compete(
    node: Compete,
    entrant: Agentic,
    ctx: RunContext,
    fork: PersistentSandbox,
    base: str,
    run_lane: RunLane,
) -> CompeteEntry:
    after = run_lane([entrant], replace(ctx, work_dir=fork.work_dir))
    for step in node.steps:
        name = step_name(entrant, step.name)
        after = run_lane([Deterministic(name, node.description, step.exec)], after)
    lines = _lines_changed(fork, base)
    return CompeteEntry(name=entrant.name, results=_new_results(after, ctx), lines=lines)


def _new_results(after: RunContext, before: RunContext) -> dict[str, NodeResult]:
    return {name: r for name, r in after.results.items() if name not in before.results}


def _no_winner(passed: Sequence[CompeteEntry], named: str | None) -> str:
    if not passed:
        return "no entrant passed the steps"
    known = ", ".join(entry.name for entry in passed)
    return f"the judge named {named!r}, which is none of those that passed: {known}"


def _describe(entry: CompeteEntry, winner: str | None) -> str:
    failed = [name for name, result in entry.results.items() if result.status == "failure"]
    how = f"failed at {', '.join(failed)}" if failed else "passed"
    lines = "countless" if entry.lines == inf else entry.lines
    return f"{entry.name}: {how}, {lines} lines changed{' (won)' * (entry.name == winner)}"


def _lines_changed(fork: PersistentSandbox, base: str) -> float:
    """Return the lines added and removed since the base; infinite if git cannot tell.

    The entrant can change the index and the attributes, so this uses its own index and `--text`.
    """
    for args in (("read-tree", base), ("add", "--all")):
        if not _git(fork, *args).ok:
            return inf
    diff = _git(fork, *_DIFF, base)
    if not diff.ok or diff.truncated:
        return inf
    return sum(line[:1] in {_NEW, _OLD} for line in diff.stdout.split(b"\n"))


def _git(sandbox: PersistentSandbox, *args: str) -> ExecResult:
    # With a sparse checkout `git add --all` would skip files that the entrant changed.
    argv = ("git", "-c", "core.sparseCheckout=false", *args)
    env = {"GIT_INDEX_FILE": ".git/harness-lines"}
    return sandbox.exec(Command(argv=argv, env=env, timeout_s=60.0, output_limit=_DIFF_LIMIT))


def _run_all(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """Run the calls at the same time and return their results; raise the first error."""
    futures = [start_in_thread(call) for call in calls]
    return [future.result() for future in futures]
