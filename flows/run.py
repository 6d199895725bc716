"""One run, end to end: repository in, nodes, work out, report. Knows nothing of Prefect."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from blueprints.engine import Lanes, Perform, Watch, call, node_runner, report, run_nodes
from contracts.errors import ForgeRefused, HarnessError, RunNotResumable, SandboxLost, Unavailable
from contracts.gate import Bounds
from contracts.run import RunContext, RunReport, RunStatus, Surfaced
from contracts.sandbox import LastingSandbox, Sandbox, SnapshotId
from flows import checkpoints, runs
from flows.asked import begin, held, read_asked
from flows.checkpoints import Checkpoint, Checkpoints, Used
from flows.egress import EgressLog
from flows.pull_requests import Propose
from flows.request import FlowRun, RunRequest, agentic_nodes
from flows.resume import check_same
from flows.run_events import Append, RunEvents
from flows.run_memory import Memory
from flows.run_notes import Notes, with_notes
from flows.signals import undisturbed
from nodes.execute import RunAgent
from nodes.text import Redact
from policy.errors import LogDamaged
from policy.view_spec import ViewSpec
from sandbox.branches import publish, push, remote_of
from sandbox.egress import OnEvent
from sandbox.repos import Base, open_repo
from sandbox.workspace import put_in, take_out

Tell = Callable[[str, str], None]
"""Takes a node's name and one line of what happens in it."""


class Opened(NamedTuple):
    """A sandbox, and the variables that its commands need to find the way out."""

    sandbox: LastingSandbox
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """What a run works with; built in `flows/wiring.py`."""

    runs: Path
    repos: Path
    env: dict[str, str]
    redact: Redact
    default_agent: str
    default_model: str
    default_budget_usd: float | None
    check: Callable[[RunRequest], tuple[str, ...]]
    """Refuses what cannot be run, before anything is started; gives notices for a person."""
    open_sandbox: Callable[
        [RunRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[Opened]
    ]
    """A sandbox for this request and run id, gone when the block ends; it reaches the operator's
    hosts and the blueprint's, and tells what it tried. It is fresh, or has a checkpoint's files."""
    keep_files_s: float
    """How long the files of a run that stopped are kept."""
    forget_files: Callable[[str, SnapshotId | None], None]
    """Removes what is kept of a run's files, by its id, except what it is given."""
    memory: Memory
    propose: Propose
    """Opens the pull request of what was pushed."""
    notes: Callable[[], AbstractContextManager[Notes]]
    """The notebook, for as long as a run lasts."""
    agents: Callable[[RunRequest, str, Path, Tell, Used], AbstractContextManager[RunAgent]]
    """Who does agentic nodes of this request and run id; the trajectory goes to the folder.
    The agents begin with what the run has used before it stopped, if it did."""
    bounds: Callable[[RunRequest], Bounds | None]
    """What the guard of this request's agents goes by, besides the tools that nodes allow."""
    event_log: Callable[[], AbstractContextManager[Append]]
    """Opens the event log while the run waits for its sandbox."""
    view: Callable[[str], ViewSpec]
    """The page of a run, by its id, as its events tell it."""


def run_blueprint(
    request: RunRequest,
    workshop: Workshop,
    *,
    run_id: str,
    flow_run: FlowRun | None = None,
    perform: Perform = call,
    lanes: Callable[[], Perform] = lambda: call,
    watch: Watch | None = None,
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
    base = None if known else open_repo(request.repo, request.ref, store=workshop.repos)
    with held(workshop.runs, run_id):
        start = _start(request, workshop, run_id, base)
        workshop.memory.prepare()
        folder = begin(workshop.runs, run_id, request, flow_run)
        with (
            workshop.event_log() as append,
            workshop.notes() as book,
            _Record(request, start, folder, run_id, flow_run, workshop, append, book) as record,
        ):
            if start.ended is None:
                _do_nodes(
                    record,
                    request,
                    workshop,
                    perform=perform,
                    lanes=lanes,
                    told=watch or Watch(),
                )
            else:
                ctx = _context(request, {}, run_id, "", record.recalled())
                record.ctx = replace(ctx, results=start.ended)
            record.publish()
            record.push_if_asked()
    return record.report


def _start(request: RunRequest, workshop: Workshop, run_id: str, base: Base | None) -> Checkpoint:
    """Where the run goes on, or the beginning: the base commit and nothing done."""
    folder = workshop.runs / run_id
    asked = read_asked(folder)
    if asked is not None:
        check_same(asked, request.blueprint)
    kept = checkpoints.read(folder, request.repo)
    if kept is not None:
        return kept
    if asked is not None:
        raise RunNotResumable(f"run {run_id} is finished: `harness run` starts another")
    opened = base or open_repo(request.repo, request.ref, store=workshop.repos)
    return checkpoints.begin(folder, opened)


def _do_nodes(
    record: "_Record",
    request: RunRequest,
    workshop: Workshop,
    *,
    perform: Perform,
    lanes: Callable[[], Perform],
    told: Watch,
) -> None:
    kept = record.kept
    run_id = record.ctx.run_id
    with (
        workshop.agents(request, run_id, record.folder, told.on_line, kept.now.used) as run_agent,
        workshop.open_sandbox(request, run_id, record.egress, kept.now.files) as opened,
    ):
        sandbox = opened.sandbox
        kept.prepare(sandbox)
        if kept.now.files is None:
            put_in(sandbox, kept.now.base, record.branch)
        kept.follow(sandbox)
        env = {**workshop.env, **opened.env}
        record.ctx = _context(request, env, run_id, sandbox.work_dir, record.recalled())
        run_node = node_runner(
            sandbox,
            with_notes(run_agent, record.events.following(record.book), request, run_id),
            perform=kept.perform(perform, request.model),
            watch=told,
            redact=workshop.redact,
            lanes=Lanes(perform=lanes, keep=record.keep_lane),
        )
        record.events.begin()
        with _collected(record, sandbox):
            run_nodes(request.blueprint.nodes, record.ctx, run_node, checkpoint=record.keep)


class _Record:
    """What is known of a run so far; leaving the block keeps it as the run's report."""

    def __init__(
        self,
        request: RunRequest,
        start: Checkpoint,
        folder: Path,
        run_id: str,
        flow_run: FlowRun | None,
        workshop: Workshop,
        append: Append,
        book: Notes,
    ) -> None:
        self.book = book
        self.branch = f"harness/{run_id}/{request.blueprint.name}"
        self.ctx = RunContext(run_id=run_id, work_dir="")
        self.folder = folder
        self.kept = Checkpoints(
            folder,
            start,
            ttl_s=workshop.keep_files_s,
            forget=lambda but: workshop.forget_files(run_id, but),
        )
        self.work = start.work
        self._lanes: list[str] = []
        self._request = request
        self._base = start.base
        self._flow_run = flow_run
        self._redact = workshop.redact
        self._memory = workshop.memory
        self._shown: tuple[str, ...] = ()
        self._pushed = False
        self._open_pull_request = workshop.propose
        self._pull_request: str | None = None
        self._refused: tuple[str, ...] = ()
        self.egress = EgressLog(folder / "egress.jsonl")
        asked = read_asked(folder)
        self._started_at = asked.started_at if asked else ""
        self.events = RunEvents(
            append,
            request,
            run_id=run_id,
            commit=start.base.commit,
            folder=folder,
            redact=workshop.redact,
            told=start.results if start.went_on else None,
            bounds=workshop.bounds(request),
        )

    def __enter__(self) -> "_Record":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with nullcontext() if error is None else undisturbed():
            self._keep_report(error)

    def _keep_report(self, error: BaseException | None) -> None:
        self.report = self._report(error)
        outage = self._tell_events()
        runs.finish(self.folder, self.report, self.work.diff if self.work else "")
        self._memory.record(self.report, self._request.blueprint.verdict_later)
        if error is None and self.book.earned(self.report):
            self.book.learn(self.report.run_id)
        if error is None:
            self.kept.drop()
        if outage is not None and error is None:
            raise outage

    def recalled(self) -> str:
        """What memory has for this task; noted in the report. Nobody asks where no agent works."""
        if not agentic_nodes(self._request.blueprint):
            return ""
        task = self._request.intent or self._request.blueprint.description
        recall = self._memory.surface(self.ctx.run_id, task)
        self._shown = recall.shown
        self.events.surfaced(recall)
        return recall.text

    def _surfaced(self) -> Surfaced:
        if not agentic_nodes(self._request.blueprint):
            return Surfaced()
        return replace(self.book.given(self.ctx.run_id), playbooks=self._shown)

    def keep(self, ctx: RunContext) -> None:
        self.ctx = ctx
        self.events.keep(ctx, self.kept.now.files)

    def _tell_events(self) -> HarnessError | None:
        """Write the end into the event log; what hinders that is a notice in the report."""
        try:
            self.events.finish(self.report)
        except (Unavailable, LogDamaged) as outage:
            notice = f"the event log does not hold all of this run: {outage}"
            self.report = replace(self.report, notices=(*self.report.notices, notice))
            return outage
        return None

    def take(self, sandbox: Sandbox, *, done: bool) -> None:
        """Bring the work out of the sandbox; `done` when no node will add to it."""
        message = f"harness: {self._request.intent or self._request.blueprint.description}"
        self.work = take_out(sandbox, self._base, self.branch, message=message)
        if done:
            self.kept.save(replace(self.kept.now, ended=dict(self.ctx.results), work=self.work))

    def keep_lane(self, name: str, fork: LastingSandbox) -> None:
        """Keep what an agent made that did not win, as a branch of the bare repository."""
        branch = f"{self.branch}.{re.sub('[^A-Za-z0-9-]', '-', name)}"
        lost = take_out(fork, self._base, branch, message=f"harness: {name} did not win")
        if lost is not None:
            self._lanes.append(f"what {name} made is kept: {self._base.bare} has {branch}")

    def publish(self) -> None:
        """Bring the work onto a branch of the user's repository."""
        if self.work is None:
            return
        before = self.kept.now.published
        publish(self._base, self.work.branch, self.work.commit, replaces=before)
        self.kept.save(replace(self.kept.now, published=self.work.commit))

    def push_if_asked(self) -> None:
        if self._request.push and self.work is not None and self._verdict().status == "success":
            push(self._base, self.work.branch)
            self._pushed = True
            self._pull_request = self._propose()

    def _propose(self) -> str | None:
        remote = remote_of(self._base)
        try:
            ref_name = self._base.ref_name
            return remote and self._open_pull_request(remote, ref_name, self._report(None))
        except ForgeRefused as error:
            self._refused = (self._redact(str(error)),)
            return None

    def _verdict(self) -> RunReport:
        took = self.kept.elapsed_ms
        return report(self._request.blueprint, self.ctx, total_duration_ms=took)

    def _report(self, error: BaseException | None) -> RunReport:
        verdict = self._verdict()
        work = self.work
        return replace(
            verdict,
            status=verdict.status if error is None else _status(error),
            error=verdict.error if error is None else self._redact(_reason(error)),
            flow_run_id=self._flow_run.id if self._flow_run else None,
            flow_run_url=self._flow_run.url if self._flow_run else None,
            repo=self._request.repo,
            intent=self._request.intent,
            agent=self._request.agent,
            model=self._request.model,
            base_commit=self._base.commit,
            branch=work.branch if work else None,
            commit=work.commit if work else None,
            diff_stat=work.diff_stat if work else verdict.diff_stat,
            pushed=self._pushed,
            pull_request=self._pull_request,
            surfaced=self._surfaced(),
            started_at=self._started_at,
            notices=(
                *(f"went on {when}, without running them again" for when in self.kept.now.went_on),
                *((_goes_on(self.ctx.run_id),) if error is not None else ()),
                *self._lanes,
                *self._base.notices,
                *(work.notices if work else ()),
                *self.egress.notices,
                *self._refused,
            ),
        )


@contextmanager
def _collected(record: _Record, sandbox: Sandbox) -> Iterator[None]:
    """Take the work out when the block ends, however it ends, unless the sandbox is lost."""
    try:
        yield
    except SandboxLost:
        raise
    except BaseException:
        with undisturbed():
            record.take(sandbox, done=False)
            record.publish()
        raise
    record.take(sandbox, done=True)


def _context(
    request: RunRequest, env: Mapping[str, str], run_id: str, work_dir: str, memory: str
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


def _goes_on(run_id: str) -> str:
    return f"the nodes did not come to an end: `harness runs resume {run_id}` goes on"


def _status(error: BaseException) -> RunStatus:
    return "failure" if isinstance(error, Exception) else "cancelled"


def _reason(error: BaseException) -> str:
    if isinstance(error, HarnessError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
