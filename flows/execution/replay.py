"""Replays a run from its trajectory, without calling a model, and compares the outcome."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from blueprints.engine import NodeRunner, RunListener, run_nodes
from blueprints.find import find_blueprint
from contracts.errors import HarnessError, ModelUnavailable, OptionInvalid, RunNotReplayable
from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import new_context
from flows.execution.sandboxes import EgressLog
from flows.runs.checkpoint import UsedBudget
from flows.runs.home import EGRESS, TRAJECTORY
from flows.runs.request import ResolvedRequest, new_run_id
from flows.runs.run_record import read_record, request_for
from flows.runs.runs import find_run, read_report
from nodes.agents.types import NO_CONVERSATIONS
from providers.trajectory import TrajectoryDifference, first_difference
from sandbox.diffs import changed_paths, tree_id
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import WorkCommit, clone_into_sandbox, collect_work


@dataclass(frozen=True, kw_only=True)
class ReplayOutcome:
    """Result of a replay: the first step that differed, and the files that differ."""

    run_id: str
    same: bool
    difference: TrajectoryDifference | None = None
    files: tuple[str, ...] = ()
    was_tree: str
    tree: str


def replay(
    runs: Path,
    run: str,
    dependencies: Callable[[Path], RunDependencies],
    watch: RunListener | None = None,
) -> ReplayOutcome:
    """Run the nodes again on the base commit in a fresh sandbox; compare the steps and the tree.

    `dependencies` returns dependencies whose agents get the replies of this trajectory. The replay
    writes no branch, no report and no memory.

    Raises:
        RunNotFound: no such run, or it has no report.
        RunNotReplayable: its files are gone, or an older Harness recorded it.
        Unavailable: Docker, the image or the gateway cannot be reached.
    """
    report, own = read_report(runs, run), find_run(runs, run)
    with (
        TemporaryDirectory(prefix="harness-replay-") as folder,
        _recorded_request(own, report) as request,
    ):
        shop = dependencies(own / TRAJECTORY)
        base = fetch_base(request.repo, request.ref or None, request.review_base, store=shop.repos)
        work = _do(request, base, shop, Path(folder), watch or RunListener())
        old, new = own / TRAJECTORY, Path(folder, TRAJECTORY)
        difference = first_difference(old, new) if old.exists() and new.exists() else None
    was, now = report.commit or base.commit, work.commit if work else base.commit
    return ReplayOutcome(
        run_id=report.run_id,
        same=difference is None and tree_id(base, was) == tree_id(base, now),
        difference=difference,
        files=tuple(changed_paths(base, was, now)),
        was_tree=tree_id(base, was),
        tree=tree_id(base, now),
    )


@contextmanager
def _recorded_request(own: Path, report: RunReport) -> Iterator[ResolvedRequest]:
    """Yield the request of a run, in the directory where the run was started."""
    before = Path.cwd()
    try:
        record = read_record(own)
        if record is None:
            raise RunNotReplayable("its request was not recorded")
        os.chdir(record.cwd)
        blueprint = find_blueprint(record.blueprint, repo=record.repo)
    except (OSError, HarnessError) as error:
        raise RunNotReplayable(f"run {report.run_id} cannot be replayed: {error}") from error
    try:
        request = request_for(record, blueprint)
        yield request.changed(ref=report.base_commit, push=False, user="", company="")
    finally:
        os.chdir(before)


def _do(
    request: ResolvedRequest,
    base: BaseCommit,
    dependencies: RunDependencies,
    folder: Path,
    watch: RunListener,
) -> WorkCommit | None:
    run_id = new_run_id()
    branch = f"harness/{run_id}/{request.definition.name}"
    request = dependencies.prepare_toolchain(
        request, base, lambda line: watch.on_line("sandbox", line)
    )
    with (
        dependencies.open_agents(
            request, run_id, folder, watch.on_line, UsedBudget(), NO_CONVERSATIONS
        ) as run_agent,
        dependencies.open_sandbox(request, run_id, EgressLog(folder / EGRESS), None) as opened,
    ):
        clone_into_sandbox(opened.sandbox, base, branch)
        ctx = replace(
            new_context(request.inside_sandbox(base.forked_at), run_id),
            work_dir=opened.sandbox.work_dir,
            env={**dependencies.env, **opened.env},
        )
        run_node = NodeRunner(opened.sandbox, run_agent, listener=watch, redact=dependencies.redact)
        with suppress(ModelUnavailable, OptionInvalid):  # no recorded reply is left
            run_nodes(request.definition.nodes, ctx, run_node)
        return collect_work(opened.sandbox, base, branch, message="replay")
