"""Brings a run's work to the user: out of the sandbox, onto a branch, to the remote."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from secrets import token_hex

from contracts.errors import ForgeRefused, HarnessError, SandboxLost, WorkRefused
from contracts.run import NodeResult, RunReport, without_attempt
from contracts.sandbox import PersistentSandbox, Sandbox
from flows.execution.dependencies import RunDependencies
from flows.forge.client import Forge
from flows.forge.pulls import PullRequest, open_pull_request
from flows.runs.checkpoint import PullProgress
from flows.runs.checkpoints import Checkpoints
from flows.runs.report import summary_markdown
from flows.runs.request import ResolvedRequest
from nodes.outputs.inert import inert_line, inert_markdown, inert_quotes
from nodes.outputs.proposals import Pull
from nodes.text import strip_control_characters, subject_line, truncate_middle
from sandbox.branches import publish_branch, push_address, push_branch
from sandbox.workspace import collect_work, ignored_files_notice, reset_index

MESSAGE_CAP = 8_000
"""Characters of the intent in a commit message."""


class Delivery:
    """The work of one run: its commit, branch, push and pull request."""

    def __init__(
        self,
        request: ResolvedRequest,
        run_id: str,
        checkpoints: Checkpoints,
        dependencies: RunDependencies,
    ) -> None:
        self.branch = f"harness/{run_id}/{request.definition.name}"
        self.work = checkpoints.current.work
        self.pushed = checkpoints.current.pull is not None
        self.notices: tuple[str, ...] = ()
        self._agents = {node.name for node in request.agentic_nodes}
        began = {*checkpoints.current.talks, *map(without_attempt, checkpoints.current.results)}
        self.agent_began = not self._agents.isdisjoint(began)
        """True once an agent has worked, or may have, also before a resume."""
        self._request = request
        self._checkpoints = checkpoints
        self._base = checkpoints.current.base
        remote = push_address(self._base) if request.may_push else None
        self.forge: Forge | None = dependencies.find_forge(remote) if remote else None
        """Where the pushed branch becomes a pull request."""
        self.refusal = ""
        """Why the forge refused the pull request."""
        self._dependencies = dependencies

    def collect(self, sandbox: Sandbox, *, ended: Mapping[str, NodeResult] | None) -> None:
        """Take the work out of the sandbox. `ended` holds the results after the last node, else
        None. There is none if the blueprint has agents and none of them began."""
        if self._agents and not self.agent_began:
            if ended is not None:
                self._checkpoints.save(replace(self._checkpoints.current, ended=dict(ended)))
            return
        about = self._request.intent or self._request.definition.description
        said = inert_quotes(strip_control_characters(about))
        message = f"harness: {truncate_middle(said, MESSAGE_CAP)}"
        self.work = collect_work(sandbox, self._base, self.branch, message=message)
        if self.work is None and ended is not None:
            self.tell(*reset_index(sandbox), *ignored_files_notice(sandbox))
        if ended is not None:
            self._checkpoints.save_end(
                replace(self._checkpoints.current, ended=dict(ended), work=self.work)
            )

    def rescue(self, sandbox: Sandbox) -> None:
        """Take out and publish the work of a run that an error has ended.

        A failure here only adds a notice: the first error is the reason why the run ended.
        """
        try:
            self.collect(sandbox, ended=None)
            self.publish()
        except HarnessError as error:
            self.notices = (
                f"the work could not be put on its branch: {self._dependencies.redact(str(error))}",
            )

    def keep_lane(self, name: str, fork: PersistentSandbox) -> None:
        """Save the work of an agent that lost a competition, as a branch of the bare repository.

        A failure here only adds a notice: the winner's run goes on.
        """
        branch = f"{self.branch}.{re.sub('[^A-Za-z0-9-]', '-', name)}"
        try:
            lost = collect_work(fork, self._base, branch, message=f"harness: {name} did not win")
        except (WorkRefused, SandboxLost) as error:
            self.tell(
                f"the work of {name} could not be saved: {self._dependencies.redact(str(error))}"
            )
            return
        now = self._checkpoints.current
        if lost is not None and branch not in now.lost:
            self._checkpoints.save(replace(now, lost=(*now.lost, branch)))

    def tell(self, *notices: str) -> None:
        """Add these notices to the report, once each."""
        now = self._checkpoints.current
        new = [notice for notice in notices if notice not in now.notices]
        if new:
            self._checkpoints.save(replace(now, notices=(*now.notices, *new)))

    def publish(self) -> None:
        """Put the work on a branch of the user's repository."""
        if self.work is None:
            return
        before = self._checkpoints.current.published
        publish_branch(self._base, self.work.branch, self.work.commit, replaces=before)
        self._checkpoints.save(replace(self._checkpoints.current, published=self.work.commit))

    @property
    def pull_request(self) -> str | None:
        """The page of the run's pull request."""
        pull = self._checkpoints.current.pull
        return pull.page if pull else None

    def push(self, report: Callable[[], RunReport], proposed: Pull | None = None) -> None:
        """Push the branch to its remote; open a pull request if a token for the forge is
        configured: the proposed one, or one that shows the report. A commit that was pushed is not
        pushed again.

        If the forge refuses the pull request, that is a notice; the push stays.
        """
        now = self._checkpoints.current
        if self.work is None or (now.pull and now.pull.commit == self.work.commit):
            return
        push_branch(self._base, self.work.branch)
        self.pushed = True
        if self.forge is None:
            return
        if now.pull is not None:
            pushed = replace(now.pull, commit=self.work.commit, pushed_at=time.time())
            self._checkpoints.save(replace(now, pull=pushed))
            return
        shown = proposed or report_pull(report(), draft=self.forge.draft)
        wanted = PullRequest(
            branch=self.work.branch,
            base=self._base.ref_name,
            title=shown.title,
            body=shown.body,
            draft=shown.draft,
        )
        try:
            opened = open_pull_request(self.forge, wanted)
        except ForgeRefused as error:
            self.refusal = self._dependencies.redact(str(error))
            self.notices = (self.refusal,)
            return
        pull = PullProgress(
            page=opened.page,
            number=opened.number,
            commit=self.work.commit,
            pushed_at=time.time(),
            marker=f"harness report {token_hex(8)}",
        )
        self._checkpoints.save(replace(now, pull=pull))


def report_pull(report: RunReport, *, draft: bool) -> Pull:
    """Return the title and text of a pull request that shows this report.

    The text begins with the last message of the agent that worked last.
    """
    about = f"{report.blueprint}: {subject_line(report.intent) or report.run_id}"
    said = [node.output for node in report.nodes if node.type == "agentic" and node.output]
    parts = (*said[-1:], summary_markdown(report))
    return Pull(title=inert_line(about), body=inert_markdown("\n\n".join(parts)), draft=draft)
