"""One run from top to bottom: repository in, memory, nodes, work out, report.

Knows nothing of Prefect: `flows/orchestration/compile.py` calls `run_blueprint` from a flow.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from blueprints.engine import (
    LaneHooks,
    NodeRunner,
    RunListener,
    WrapNode,
    call_directly,
    run_nodes,
)
from contracts.errors import GitFailed, RunNotResumable, SandboxLost
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox, SnapshotId
from flows.audit.approval_text import resume_point
from flows.audit.run_events import log_sizes
from flows.execution.base_check import rules_for_agents
from flows.execution.dependencies import OpenedSandbox, RunDependencies
from flows.execution.installs import RunInstalls
from flows.execution.rounds import with_rounds
from flows.execution.run_state import RunState
from flows.execution.started_for import with_forge_text
from flows.recall.notes import with_notes
from flows.runs import checkpoint
from flows.runs.checkpoint import StartPoint
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import check_same_nodes, read_record, run_lock, write_record
from nodes.agents.rule_files import Rules
from nodes.execute import RunAgent
from nodes.types import Agentic
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clear_repository, clone_into_sandbox


def run_blueprint(
    request: ResolvedRequest,
    dependencies: RunDependencies,
    *,
    run_id: str,
    flow_run: FlowRun | None = None,
    make_wrapper: Callable[[], WrapNode] = lambda: call_directly,
    watch: RunListener | None = None,
) -> RunReport:
    """Run the blueprint on the repository and return the report.

    A stopped run with this id continues in the same files and does not repeat finished nodes.
    The report is saved, and the work so far is on the run's branch, even if a node fails or
    raises. `make_wrapper` makes the function that executes the nodes one after the other; it is
    called once for the run and once for each lane of a parallel node.

    Raises:
        BadInput: the repository or the ref cannot be used.
        RunNotResumable: a run with this id is running or finished, or its files are gone.
        Unavailable: Docker, the image or the model cannot be reached.
        WorkRefused: the sandbox returned something other than the commits it promised.
    """
    is_new = not (dependencies.runs / run_id).exists()
    # Before the lock, which creates the folder of the run: a bad repository leaves no run.
    base = _fetch_base(request, dependencies) if is_new else None
    if base is not None:
        request = with_forge_text(request, base, dependencies.find_forge)
    with run_lock(dependencies.runs, run_id):
        start = _start_point(request, dependencies, run_id, base)
        if base is None:
            request = _with_intent(request, start, dependencies, run_id)
        request = request.changed(way_out=start.checkpoint.base.way_out)
        dependencies.memory.prepare()
        folder = write_record(dependencies.runs, run_id, request, flow_run)
        request = with_rounds(request, start.checkpoint)
        with dependencies.open_event_log() as append, dependencies.open_notes() as notes:
            run = RunState(request, start, folder, run_id, flow_run, dependencies, append, notes)
            try:
                if start.checkpoint.ended is None:
                    _run_nodes(run, request, dependencies, make_wrapper, watch or RunListener())
                else:
                    run.ctx = replace(new_context(request, run_id), results=start.checkpoint.ended)
                run.delivery.publish()
                run.load_approvals()
                run.push_if_asked()
                run.deliver_outputs()
                run.follow_pull_request()
            except BaseException as error:  # recorded and raised again, Ctrl-C too
                with ignore_sigterm():
                    run.finish(error)
                raise
            return run.finish()


def _start_point(
    request: ResolvedRequest, dependencies: RunDependencies, run_id: str, base: BaseCommit | None
) -> StartPoint:
    """Return the run's checkpoint, or for a new run one with only the base commit.

    A resumed run continues with what a person has approved since it stopped.
    """
    folder = dependencies.runs / run_id
    record = read_record(folder)
    if record is not None:
        check_same_nodes(record, request.definition)
    saved = checkpoint.read(folder, request.repo)
    if saved is None:
        if record is not None and not record.queued:
            raise RunNotResumable(f"run {run_id} is finished: `harness run` starts another")
        base = base or _fetch_base(request, dependencies)
        return StartPoint(checkpoint.write_first(folder, base))
    if saved.pull is None:
        saved = checkpoint.resume_checkpoint(saved)
    request = with_rounds(request, saved)
    bounds = dependencies.bounds(request)
    with dependencies.open_approvals() as approvals:
        # If the checkpoint lacks the work of an approved call, the agent may repeat that call. With
        # network access it may not: the call may have had an effect outside already.
        if bounds is not None and not bounds.hosts:
            approvals.restore_used(run_id, used_since=checkpoint.written_at(folder))
        known = approvals.list(run_id=run_id)
    sizes = log_sizes(folder)
    return StartPoint(resume_point(saved, request.definition, known, log_sizes=sizes), resumed=True)


def _with_intent(
    request: ResolvedRequest, start: StartPoint, dependencies: RunDependencies, run_id: str
) -> ResolvedRequest:
    """Return the request with the text from its forge, as it was when the run began."""
    record = read_record(dependencies.runs / run_id) if start.resumed else None
    if record is None:
        return with_forge_text(request, start.checkpoint.base, dependencies.find_forge)
    return request.changed(intent=record.intent, intent_from=record.intent_from)


def _fetch_base(request: ResolvedRequest, dependencies: RunDependencies) -> BaseCommit:
    base = fetch_base(
        request.repo,
        request.ref or None,
        request.review_base,
        store=dependencies.repos,
        find=dependencies.find_source,
    )
    return dependencies.inspect_base(request, base)


def _run_nodes(
    run: RunState,
    request: ResolvedRequest,
    dependencies: RunDependencies,
    make_wrapper: Callable[[], WrapNode],
    watch: RunListener,
) -> None:
    """Open the agents and the sandbox, put the repository in, run the nodes, take the work out."""
    checkpoints, run_id = run.checkpoints, run.ctx.run_id
    saved = checkpoints.current
    if saved.files is None:
        request = dependencies.prepare_toolchain(
            request, saved.base, lambda line: watch.on_line("sandbox", line)
        )
    if notice := dependencies.token_budget(request).notice:
        run.delivery.tell(notice)
    rules = rules_for_agents(saved.base) if request.agents else Rules()
    if rules.paths:
        run.delivery.tell(f"agents were given rule files: {', '.join(rules.paths)}")
    with (
        dependencies.open_agents(
            request, run_id, run.folder, watch.on_line, run.used_budget, checkpoints.talks
        ) as run_agent,
        _sandbox_with_repository(run, request, dependencies) as (opened, installs),
    ):
        sandbox = opened.sandbox
        checkpoints.follow(sandbox)
        run.ctx = replace(
            new_context(request.inside_sandbox(saved.base.forked_at), run_id),
            env={**dependencies.env, **opened.env},
            work_dir=sandbox.work_dir,
            memory=run.recall(),
            rules=rules.text,
            installs=installs,
        )
        notes = run.events.recording_notes(run.notes)
        run_node = NodeRunner(
            sandbox,
            _after_installs(installs, run, with_notes(run_agent, notes, request, run_id)),
            wrap=checkpoints.perform(make_wrapper()),
            listener=watch,
            redact=dependencies.redact,
            lane_hooks=LaneHooks(
                wrap=lambda name, fork: checkpoints.perform_in_lane(make_wrapper(), name, fork),
                saved_files=checkpoints.fork_of,
                save_work=run.delivery.keep_lane,
            ),
        )
        run.events.write_start()
        with _work_collected(run, sandbox):
            run_nodes(request.definition.nodes, run.ctx, run_node, checkpoint=run.node_finished)


@contextmanager
def _sandbox_with_repository(
    run: RunState, request: ResolvedRequest, dependencies: RunDependencies
) -> Iterator[tuple[OpenedSandbox, RunInstalls]]:
    """Open the sandbox with the base commit in it, or with the files of a stopped run.

    A new run starts from a kept environment where there is one. A broken one is removed.
    """
    saved, run_id = run.checkpoints.current, run.ctx.run_id
    start = None if saved.files else dependencies.find_start(request, saved.base)
    installs = dependencies.open_installs(request, start, run.egress, run.delivery.tell)
    with ExitStack() as stack:

        def open_it(files: SnapshotId | None) -> OpenedSandbox:
            opening = dependencies.open_sandbox(request, run_id, run.egress, files)
            return stack.enter_context(opening)

        opened = None
        if start is not None and start.environment is not None:
            try:
                opened = open_it(start.environment.image)
                clear_repository(opened.sandbox)
                clone_into_sandbox(opened.sandbox, saved.base, run.delivery.branch)
            except (RunNotResumable, SandboxLost, GitFailed):
                stack.close()
                dependencies.remove_environment(start.environment)
                opened = None
        is_fresh = opened is None
        if opened is None:
            opened = open_it(saved.files)
            if saved.files is None:
                clone_into_sandbox(opened.sandbox, saved.base, run.delivery.branch)
        installs.follow(opened.sandbox, saved.base, fresh=is_fresh)
        yield opened, installs


def _after_installs(installs: RunInstalls, run: RunState, run_agent: RunAgent) -> RunAgent:
    """Return `run_agent`, which first ends the network of installs. From then on there is work."""

    def run_it(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        installs.agent_begins()
        run.delivery.agent_began = True
        return run_agent(node, ctx, sandbox)

    return run_it


@contextmanager
def _work_collected(run: RunState, sandbox: Sandbox) -> Iterator[None]:
    """Take the work out of the sandbox when the block ends, also after an error."""
    try:
        yield
    except BaseException:
        # Also out of a sandbox reported as lost: its container may still run while only the Docker
        # engine refuses, for example when its disk is too full for a snapshot.
        with ignore_sigterm():
            run.delivery.rescue(sandbox)
        raise
    run.delivery.collect(sandbox, ended=run.ctx.results)


def new_context(request: ResolvedRequest, run_id: str) -> RunContext:
    """Return the context of a run before its first node, without a sandbox."""
    return RunContext(
        run_id=run_id,
        work_dir="",
        intent=request.intent,
        repo=request.repo,
        push=request.push,
        agent=request.agent,
        model=request.model,
        options=request.options,
    )


@contextmanager
def ignore_sigterm() -> Iterator[None]:
    """Ignore SIGTERM during the block, in which the process is ending already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
