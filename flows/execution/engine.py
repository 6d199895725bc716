"""One run, end to end: repository in, nodes, work out, report. Knows nothing of Prefect."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from blueprints.engine import LaneHooks, NodeRunner, RunListener, WrapNode, call_directly, run_nodes
from contracts.errors import RunNotResumable
from contracts.run import RunContext, RunReport
from contracts.sandbox import Sandbox
from flows.audit.agent_approvals import resume_point
from flows.execution.dependencies import RunDependencies
from flows.execution.run_state import RunState
from flows.recall.notes import with_notes
from flows.runs import checkpoint
from flows.runs.checkpoint import Checkpoint, StartPoint
from flows.runs.lock import run_lock
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.resume import check_same_nodes
from flows.runs.review_base import request_in_sandbox, review_base
from flows.runs.run_record import read_record, write_record
from flows.runs.signals import ignore_sigterm
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox


def run_blueprint(
    request: ResolvedRequest,
    workshop: RunDependencies,
    *,
    run_id: str,
    flow_run: FlowRun | None = None,
    perform: WrapNode = call_directly,
    lanes: Callable[[], WrapNode] = lambda: call_directly,
    watch: RunListener | None = None,
) -> RunReport:
    """Run the blueprint on the repository and give the report.

    A run of this id that stopped goes on where it did, in the same files; what it finished is
    not done again. The report is kept, and the work so far is on the branch, also when a node
    fails or raises.

    Raises:
        BadInput: the repository or the ref cannot be used.
        RunNotResumable: a run of this id is running or finished, or what it needs is gone.
        Unavailable: Docker, the image or the model is not to be had.
        WorkRefused: what came out of the sandbox is not what it claims to be.
    """
    known = (workshop.runs / run_id).exists()
    base = None if known else _open(request, workshop)
    with run_lock(workshop.runs, run_id):
        start = _start(request, workshop, run_id, base)
        workshop.memory.prepare()
        folder = write_record(workshop.runs, run_id, request, flow_run)
        with (
            workshop.open_event_log() as append,
            workshop.open_notes() as book,
            RunState(request, start, folder, run_id, flow_run, workshop, append, book) as record,
        ):
            if start.checkpoint.ended is None:
                _do_nodes(
                    record,
                    request,
                    workshop,
                    perform=perform,
                    lanes=lanes,
                    told=watch or RunListener(),
                )
            else:
                ctx = _context(request, {}, run_id, work_dir="", memory="")
                record.ctx = replace(ctx, results=start.checkpoint.ended)
            record.delivery.publish()
            record.look_for_approvals()
            record.push_if_asked()
    return record.report


def _start(
    request: ResolvedRequest, workshop: RunDependencies, run_id: str, base: BaseCommit | None
) -> StartPoint:
    """Where the run goes on, or the beginning: the base commit and nothing done."""
    folder = workshop.runs / run_id
    asked = read_record(folder)
    if asked is not None:
        check_same_nodes(asked, request.definition)
    kept = checkpoint.read(folder, request.repo)
    if kept is not None:
        now = _on(checkpoint.resume_checkpoint(kept), request, workshop, run_id)
        return StartPoint(now, resumed=True)
    if asked is not None and not asked.queued:
        raise RunNotResumable(f"run {run_id} is finished: `harness run` starts another")
    return StartPoint(checkpoint.write_first(folder, base or _open(request, workshop)))


def _open(request: ResolvedRequest, workshop: RunDependencies) -> BaseCommit:
    found = workshop.find_source
    main = review_base(request)
    return fetch_base(request.repo, request.ref or None, main, store=workshop.repos, find=found)


def _on(
    kept: Checkpoint, request: ResolvedRequest, workshop: RunDependencies, run_id: str
) -> Checkpoint:
    """Where a run goes on: once its nodes had ended, at what a person approved since.

    An approved call whose work the checkpoint does not hold may be made again, unless it could
    reach further than the sandbox, and approved work may be pushed again.
    """
    folder, bounds = workshop.runs / run_id, workshop.bounds(request)
    with workshop.open_approvals() as approvals:
        if bounds is not None and not bounds.hosts:
            approvals.restore_used(run_id, used_since=checkpoint.written_at(folder))
        asked = approvals.list(run_id=run_id)
    return resume_point(kept, request.definition, asked, folder=folder)


def _do_nodes(
    record: RunState,
    request: ResolvedRequest,
    workshop: RunDependencies,
    *,
    perform: WrapNode,
    lanes: Callable[[], WrapNode],
    told: RunListener,
) -> None:
    checkpoints = record.checkpoints
    run_id = record.ctx.run_id
    with (
        workshop.open_agents(
            request, run_id, record.folder, told.on_line, record.used_budget, checkpoints.talks
        ) as run_agent,
        workshop.open_sandbox(request, run_id, record.egress, checkpoints.current.files) as opened,
    ):
        sandbox = opened.sandbox
        checkpoints.prepare(sandbox)
        if checkpoints.current.files is None:
            clone_into_sandbox(sandbox, checkpoints.current.base, record.delivery.branch)
        checkpoints.follow(sandbox)
        env = {**workshop.env, **opened.env}
        asked = request_in_sandbox(request, checkpoints.current.base)
        record.ctx = _context(asked, env, run_id, sandbox.work_dir, record.recall())
        run_node = NodeRunner(
            sandbox,
            with_notes(run_agent, record.events.recording_notes(record.notes), request, run_id),
            wrap=checkpoints.perform(perform, request.model),
            listener=told,
            redact=workshop.redact,
            lane_hooks=LaneHooks(
                wrap=lambda name, fork: checkpoints.perform_in_lane(
                    lanes(), request.model, name, fork
                ),
                saved_files=checkpoints.fork_of,
                save_work=record.delivery.keep_lane,
            ),
        )
        record.events.write_start()
        with _collected(record, sandbox):
            run_nodes(
                request.definition.nodes, record.ctx, run_node, checkpoint=record.node_finished
            )


@contextmanager
def _collected(record: RunState, sandbox: Sandbox) -> Iterator[None]:
    """Take the work out when the block ends, however it ends.

    Of a lost sandbox too, as far as it can be had: it may live, and the engine alone refuse, as
    when its disk is too full for a checkpoint.
    """
    try:
        yield
    except BaseException:
        with ignore_sigterm():
            record.delivery.rescue(sandbox)
        raise
    record.delivery.collect(sandbox, ended=record.ctx.results)


def _context(
    request: ResolvedRequest, env: Mapping[str, str], run_id: str, work_dir: str, memory: str
) -> RunContext:
    return RunContext(
        run_id=run_id,
        work_dir=work_dir,
        intent=request.intent,
        repo=request.repo,
        push=request.push,
        agent=request.agent,
        model=request.model,
        memory=memory,
        env=env,
        options=request.options,
    )
