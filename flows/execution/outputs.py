"""Does what agents proposed, after the sandbox closed: each output once, within its node's terms.

What is written where is decided by the blueprint and the request; an agent decides only the words.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, assert_never

from contracts.errors import ForgeRefused, NotificationFailed
from contracts.model_access import GuardBounds
from contracts.run import NodeResult, OutputReport, RunContext
from flows.audit.run_events import RunEvents
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.forge.client import Forge
from flows.forge.outputs import Begun, Thread, add_labels, open_issue, write_comment
from flows.forge.pulls import find_open_pull
from flows.forge.reviews import Written, write_review
from flows.runs.checkpoint import OUTPUT_MARK, OutputProgress
from flows.runs.checkpoints import Checkpoints
from flows.runs.home import TRAJECTORY
from flows.runs.request import ResolvedRequest
from flows.runs.trajectory_events import node_rules, secrets_read
from nodes.outputs.proposals import (
    Action,
    Comment,
    Issue,
    Labels,
    Notification,
    Pull,
    Refusal,
    Review,
    proposals,
)
from nodes.outputs.terms import Target
from nodes.types import Output
from sandbox.branches import push_address
from sandbox.redaction import redact_url

_STARTED_FOR = re.compile(r"(issue|pull):([1-9]\d{0,17})")
_NO_THREAD: dict[Target, str] = {
    "issue": "the run was not started for an issue",
    "pull_request": "the run has no pull request: none of its own, and none of its branch",
}


class _Proposal(NamedTuple):
    """One proposal of a node; `key` names it in the checkpoint."""

    node: Output
    key: str
    what: Action | Refusal


class RunOutputs:
    """The outputs of one run. `error` says which required one could not be done."""

    def __init__(
        self,
        request: ResolvedRequest,
        checkpoints: Checkpoints,
        delivery: Delivery,
        dependencies: RunDependencies,
        folder: Path,
        bounds: GuardBounds | None,
    ) -> None:
        self.error: str | None = None
        self._request = request
        self._nodes = [one for one in request.definition.nodes if isinstance(one, Output)]
        self._checkpoints = checkpoints
        self._delivery = delivery
        self._dependencies = dependencies
        self._folder = folder
        self._bounds = bounds

    def reports(self, results: Mapping[str, NodeResult]) -> tuple[OutputReport, ...]:
        """Return every proposal so far, and what became of it."""
        return tuple(self._report(one) for one in self._proposals(results))

    def pull_request(self, results: Mapping[str, NodeResult]) -> Pull | None:
        """Return the pull request to open for the work, if one is proposed and may be opened."""
        made = (one.what for one in self._proposals(results) if isinstance(one.what, Pull))
        found = next(made, None)
        if found is None or self._delivery.forge is None or self._secrets_read():
            return None
        return replace(found, body=self._signed(found.body))

    def deliver(self, ctx: RunContext, events: RunEvents) -> None:
        """Do every output that is allowed and not done yet."""
        found = list(self._proposals(ctx.results))
        left = [one for one in found if self._report(one).status == "proposed"]
        if not left:
            return
        remote = push_address(self._checkpoints.current.base)
        forge = self._dependencies.find_forge(remote) if remote else None
        if forge is None and not all(isinstance(one.what, Notification) for one in left):
            named = f"the forge of {redact_url(remote)}" if remote else "a remote"
            self._delivery.tell(f"outputs are only proposed: there is no token for {named}")
        secrets = self._secrets_read()
        for one in left:
            if forge is not None or isinstance(one.what, Notification):
                self._do(one, forge, secrets)
                events.output_ended(one.node, self._report(one))
        self._require(found)

    def _do(self, one: _Proposal, forge: Forge | None, secrets: str) -> None:
        """Do one output, or record why it is refused."""
        before = self._checkpoints.current.outputs.get(one.key)
        if secrets or (before is not None and isinstance(one.what, Notification)):
            # Nobody can look whether it has arrived.
            reason = secrets or "the run stopped while it was sent; it is not sent again"
            self._save(one.key, replace(before or OutputProgress(), reason=reason))
            return
        begun = before or OutputProgress(marker=f"{OUTPUT_MARK} {token_hex(8)}", at=time.time())
        self._save(one.key, begun)
        mark = Begun(begun.marker, begun.at if before is not None else None)
        try:
            made = self._write(one.what, forge, mark)
        except (ForgeRefused, NotificationFailed) as error:
            self._save(one.key, replace(begun, reason=self._dependencies.redact(str(error))))
        else:
            self._save(one.key, replace(begun, page=made.page, reason=made.left_out))

    def _write(self, what: Action | Refusal, forge: Forge | None, mark: Begun) -> Written:
        if isinstance(what, Notification):
            text = f"{what.body}\n\n{self._author}"
            self._dependencies.send_notification(what.block, what.subject, text)
            return Written(what.block)
        assert forge is not None  # noqa: S101 - only notifications are done without one
        match what:
            case Comment():
                thread = self._thread(what.on, forge)
                page = write_comment(forge, thread, self._signed(what.body), mark)
            case Labels():
                page = add_labels(forge, self._thread(what.on, forge), what.names)
            case Issue():
                page = open_issue(forge, what.title, self._signed(what.body), what.labels, mark)
            case Review():
                now, text = self._checkpoints.current, self._signed(what.body)
                number = self._thread("pull_request", forge).number
                is_own = now.pull is not None and now.pull.number == number
                commit = now.pull.commit if is_own and now.pull else now.base.commit
                return write_review(forge, number, what, text, mark, reviewed=commit)
            case Pull():
                pull = self._checkpoints.current.pull
                if pull is None:
                    raise ForgeRefused(self._delivery.refusal or "the run changed nothing")
                page = pull.page
            case Refusal():
                raise AssertionError("a refusal is never done")
            case _:
                assert_never(what)
        return Written(page)

    @property
    def _author(self) -> str:
        """A line that tells people who wrote the text before it."""
        who = f"blueprint {self._request.definition.name}, run {self._folder.name}"
        return f"Written by an agent ({who}). It may be wrong."

    def _signed(self, body: str) -> str:
        return f"{body}\n\n*{self._author}*"

    def _thread(self, on: Target, forge: Forge) -> Thread:
        """Return what the run was started for, or its branch's pull request, or its own."""
        found = _STARTED_FOR.fullmatch(self._request.intent_from)
        kind: Target = "issue" if found and found[1] == "issue" else "pull_request"
        if found and kind == on:
            return Thread(on, int(found[2]))
        now = self._checkpoints.current
        if on == "pull_request":
            branch = now.base.ref_name
            pull = (find_open_pull(forge, branch) if branch else None) or now.pull
            if pull is not None:
                return Thread(on, pull.number)
        raise ForgeRefused(_NO_THREAD[on])

    def _secrets_read(self) -> str:
        """Return why nothing may leave; empty if no agent has read a file with secrets."""
        rules, trajectory = node_rules(self._request, self._bounds), self._folder / TRAJECTORY
        read = sorted({file for node in rules for file in secrets_read(trajectory, node, rules)})
        return f"an agent has read {', '.join(map(repr, read))}, which may hold secrets" * bool(
            read
        )

    def _proposals(self, results: Mapping[str, NodeResult]) -> Iterator[_Proposal]:
        for node in self._nodes:
            result = results.get(node.name)
            if result is not None and result.status != "skipped":
                for number, what in enumerate(proposals(node, results), 1):
                    yield _Proposal(node, f"{node.name}/{number}", what)

    def _report(self, one: _Proposal) -> OutputReport:
        name, about = one.node.name, str(one.what)
        if isinstance(one.what, Refusal):
            return OutputReport(
                node=name, status="refused", about=one.what.about, reason=one.what.reason
            )
        now = self._checkpoints.current.outputs.get(one.key) or OutputProgress()
        if now.page:
            return OutputReport(
                node=name, status="done", about=about, page=now.page, reason=now.reason
            )
        if now.reason:
            return OutputReport(node=name, status="refused", about=about, reason=now.reason)
        return OutputReport(node=name, status="proposed", about=about)

    def _require(self, found: list[_Proposal]) -> None:
        """Set `error` if an output of a required node is not done."""
        for one in found:
            report = self._report(one)
            if one.node.required and report.status != "done":
                self.error = f"output {one.node.name!r} is {report}"

    def _save(self, key: str, progress: OutputProgress) -> None:
        now = self._checkpoints.current
        self._checkpoints.save(replace(now, outputs={**now.outputs, key: progress}))
