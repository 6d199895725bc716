"""One run, end to end: repository in, nodes, work out, report. Knows nothing of Prefect."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from blueprints.engine import Perform, Watch, call, node_runner, report, run_nodes
from contracts.errors import HarnessError, SandboxLost
from contracts.run import RunContext, RunReport, RunStatus, Surfaced
from contracts.sandbox import Sandbox
from flows import runs
from flows.egress import EgressLog
from flows.request import FlowRun, RunRequest, agentic_nodes
from flows.run_memory import Memory
from nodes.execute import RunAgent
from nodes.text import Redact
from sandbox.branches import publish, push
from sandbox.egress import OnEvent
from sandbox.repos import Base, open_repo
from sandbox.workspace import Work, put_in, take_out

Tell = Callable[[str, str], None]
"""Takes a node's name and one line of what happens in it."""


class Opened(NamedTuple):
    """A sandbox, and the variables that its commands need to find the way out."""

    sandbox: Sandbox
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
    open_sandbox: Callable[[RunRequest, str, OnEvent], AbstractContextManager[Opened]]
    """A fresh sandbox for this request and run id, gone when the block ends; it reaches the
    operator's hosts and the blueprint's, and tells what it tried."""
    memory: Memory
    agents: Callable[[RunRequest, str, Path, Tell], AbstractContextManager[RunAgent]]
    """Who does agentic nodes of this request and run id; the trajectory goes to the folder."""


def run_blueprint(
    request: RunRequest,
    workshop: Workshop,
    *,
    run_id: str,
    flow_run: FlowRun | None = None,
    perform: Perform = call,
    watch: Watch | None = None,
) -> RunReport:
    """Run the blueprint on the repository and give the report.

    The report is kept, and the work so far is on the branch, also when a node fails or raises.

    Raises:
        BadInput: the repository or the ref cannot be used.
        Unavailable: Docker, the image or the model is not to be had.
        WorkRefused: what came out of the sandbox is not what it claims to be.
    """
    told = watch or Watch()
    base = open_repo(request.repo, request.ref, store=workshop.repos)
    folder = runs.begin(workshop.runs, run_id, request, flow_run)
    workshop.memory.prepare()
    with _Record(request, base, folder, run_id, flow_run, workshop) as record:
        with (
            workshop.agents(request, run_id, folder, told.on_line) as run_agent,
            workshop.open_sandbox(request, run_id, record.egress) as opened,
        ):
            sandbox = opened.sandbox
            put_in(sandbox, base, record.branch)
            env = {**workshop.env, **opened.env}
            record.ctx = _context(request, env, run_id, sandbox.work_dir, record.recalled())
            run_node = node_runner(
                sandbox, run_agent, perform=perform, watch=told, redact=workshop.redact
            )
            with _collected(record, sandbox):
                run_nodes(request.blueprint.nodes, record.ctx, run_node, checkpoint=record.keep)
        record.push_if_asked()
    return record.report


class _Record:
    """What is known of a run so far; leaving the block keeps it as the run's report."""

    def __init__(
        self,
        request: RunRequest,
        base: Base,
        folder: Path,
        run_id: str,
        flow_run: FlowRun | None,
        workshop: Workshop,
    ) -> None:
        self.branch = f"harness/{run_id}/{request.blueprint.name}"
        self.ctx = RunContext(run_id=run_id, work_dir="")
        self.work: Work | None = None
        self._request = request
        self._base = base
        self._folder = folder
        self._flow_run = flow_run
        self._redact = workshop.redact
        self._memory = workshop.memory
        self._shown: tuple[str, ...] = ()
        self._pushed = False
        self.egress = EgressLog(folder / "egress.jsonl")
        self._started = monotonic()
        self._started_at = datetime.now(UTC)

    def __enter__(self) -> "_Record":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.report = self._report(error)
        runs.finish(self._folder, self.report, self.work.diff if self.work else "")
        self._memory.record(self.report, self._request.blueprint.verdict_later)

    def recalled(self) -> str:
        """What memory has for this task; noted in the report. Nobody asks where no agent works."""
        if not agentic_nodes(self._request.blueprint):
            return ""
        task = self._request.intent or self._request.blueprint.description
        recall = self._memory.surface(self.ctx.run_id, task)
        self._shown = recall.shown
        return recall.text

    def keep(self, ctx: RunContext) -> None:
        self.ctx = ctx

    def take(self, sandbox: Sandbox) -> None:
        """Bring the work out of the sandbox and onto a branch of the user's repository."""
        message = f"harness: {self._request.intent or self._request.blueprint.description}"
        self.work = take_out(sandbox, self._base, self.branch, message=message)
        if self.work is not None:
            publish(self._base, self.work.branch, self.work.commit)

    def push_if_asked(self) -> None:
        if self._request.push and self.work is not None and self._verdict().status == "success":
            push(self._base, self.work.branch)
            self._pushed = True

    def _verdict(self) -> RunReport:
        took = round((monotonic() - self._started) * 1000)
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
            surfaced=Surfaced(playbooks=self._shown),
            started_at=self._started_at.isoformat(timespec="seconds"),
            notices=(
                *self._base.notices,
                *(work.notices if work else ()),
                *self.egress.notices,
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
        record.take(sandbox)
        raise
    record.take(sandbox)


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


def _status(error: BaseException) -> RunStatus:
    return "failure" if isinstance(error, Exception) else "cancelled"


def _reason(error: BaseException) -> str:
    if isinstance(error, HarnessError):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
