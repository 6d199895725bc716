"""The pull request of a run after its push: checks, comments and conflicts begin rounds.

The run waits between looks without a process; see `flows/orchestration/wait_checks.py`.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Literal

from contracts.errors import ForgeAway, ForgeRefused, GitFailed, RepoInvalid, WorkRefused
from contracts.run import ChecksReport, RunReport
from flows.audit.run_events import log_sizes
from flows.execution.answers import (
    asked_text,
    find_comment,
    owes_reply,
    reply_text,
    takes_comments,
)
from flows.execution.base_merge import MERGE_TASK, conflicting_base
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.execution.rounds import mending_rounds, next_round, speaker
from flows.forge.checks import Check, read_checks, read_logs
from flows.forge.client import Forge
from flows.forge.comments import save_reply
from flows.forge.pulls import OpenPull, mark_ready, read_pull_request, save_comment
from flows.runs import checkpoint
from flows.runs.checkpoint import Asked, PullProgress
from flows.runs.checkpoints import Checkpoints
from flows.runs.report import summary_markdown
from flows.runs.request import ResolvedRequest
from nodes.text import one_line, quote_untrusted
from sandbox.branches import push_address
from sandbox.merges import check_merged
from sandbox.repos import BaseCommit

FIRST_CHECK_S = 60.0
"""Seconds after the push in which the first check has to appear."""
LONGEST_WAIT_S = 6 * 3600.0
"""Seconds after the push in which all checks have to end."""
SHORTEST_POLL_S = 10.0
LONGEST_POLL_S = 300.0
LOGS_CAP = 24_000
"""Characters of all logs that an agent is given for one round."""

_TASK = (
    "Your work was pushed and a pull request was opened. Some checks of the forge failed. Find out "
    "why and mend it in this repository; if a check fails for another reason, say so and leave it. "
    "Your changes are pushed when you are done.\n\n"
)


def next_look_s(
    request: ResolvedRequest, dependencies: RunDependencies, run_id: str
) -> float | None:
    """Return the seconds after which to ask the forge again; None if the run can go on now."""
    saved = checkpoint.read(dependencies.runs / run_id, request.repo)
    if saved is None or saved.pull is None or saved.ended is None or not request.until_green:
        return None
    remote = push_address(saved.base)
    forge = dependencies.find_forge(remote) if remote else None
    if forge is None:
        return None
    waited_s = time.time() - saved.pull.pushed_at
    try:
        if judge(read_checks(forge, saved.pull.commit), waited_s).state != "running":
            return None
    except ForgeAway:
        if waited_s >= LONGEST_WAIT_S:
            return None
    except ForgeRefused:
        return None  # the run itself reports it
    return poll_s(waited_s)


def poll_s(waited_s: float) -> float:
    """Return the seconds until the forge is asked again: rarer, the longer the checks take."""
    return min(max(waited_s / 4, SHORTEST_POLL_S), LONGEST_POLL_S)


def judge(checks: Sequence[Check], waited_s: float) -> ChecksReport:
    """Return what the checks say together, `waited_s` after the push."""
    failed = tuple(one_line(check.name) for check in checks if check.state == "failed")
    if any(check.state == "running" for check in checks):
        return ChecksReport(state="running" if waited_s < LONGEST_WAIT_S else "unknown")
    if not checks:
        return ChecksReport(state="running" if waited_s < FIRST_CHECK_S else "none")
    return ChecksReport(state="failed" if failed else "passed", failed=failed)


class PullRequestLoop:
    """The pull request of one run after its push. `checks` is None until one is followed."""

    def __init__(
        self,
        request: ResolvedRequest,
        checkpoints: Checkpoints,
        delivery: Delivery,
        folder: Path,
        dependencies: RunDependencies,
    ) -> None:
        self._request = request
        self._checkpoints = checkpoints
        self._delivery = delivery
        self._folder = folder
        self._dependencies = dependencies
        self._redact = dependencies.redact
        self.error: str | None = None
        """Why the run failed although its nodes succeeded."""
        self.checks: ChecksReport | None = None
        self._conflicts = False
        rounds = checkpoints.current.rounds
        if rounds and rounds[-1].asked is None:
            state: Literal["unknown", "failed"] = "unknown" if rounds[-1].onto else "failed"
            self.checks = self._numbered(ChecksReport(state=state))
        if self.is_followed or self.takes_comments:
            checkpoints.expect_rounds()

    @property
    def is_followed(self) -> bool:
        """Return whether the run waits for the checks of its pull request, should one be opened."""
        return self._request.until_green > 0 and self._delivery.forge is not None

    @property
    def takes_comments(self) -> bool:
        """Return whether another comment on the pull request would be answered."""
        forge = self._delivery.forge
        return forge is not None and takes_comments(forge, self._checkpoints.current)

    @property
    def may_go_on(self) -> bool:
        """Return whether a comment may continue the run after its end."""
        now = self._checkpoints.current
        if now.pull is None or now.ended is None or speaker(self._request, now) is None:
            return False
        if now.rounds and now.rounds[-1].onto and now.pull.commit == now.rounds[-1].commit:
            return False  # a merge that is not whole is in the files
        return self.takes_comments or owes_reply(now)

    @property
    def is_answering(self) -> bool:
        """True while a comment that was worked on has no reply."""
        return owes_reply(self._checkpoints.current)

    @property
    def goes_on(self) -> bool:
        """True while checks run, or a round is to come."""
        return self.checks is not None and self.checks.goes_on

    def check_merge(self) -> None:
        """Set `error` if the last round had to merge a newer base and its work does not hold it."""
        now, work = self._checkpoints.current, self._delivery.work
        if now.rounds and now.rounds[-1].onto and work is not None:
            try:
                check_merged(now.base, work.commit)
            except WorkRefused as error:
                self.error = f"the conflicts with the base branch are not resolved: {error}"

    def look(self) -> None:
        """Reply to the comment that was worked on, and prepare a round for the next comment.

        Without one, ask for the checks of the pushed commit; prepare a round if they failed.
        """
        now, forge = self._checkpoints.current, self._delivery.forge
        if forge is None or now.pull is None:
            return
        self._reply(forge)
        if self._begin_answer(forge, now.pull):
            self.checks = replace(self.checks or ChecksReport(state="none"), goes_on=True)
        elif self.is_followed:
            self._look_at_checks(forge, now.pull)

    def end_answer(self, error: str) -> None:
        """Reply to the comment whose round has failed."""
        forge = self._delivery.forge
        if forge is not None:
            self._reply(forge, error)

    def comment(self, report: RunReport) -> None:
        """Write the report into the pull request's one comment, if it says something of checks."""
        now, forge = self._checkpoints.current, self._delivery.forge
        tells = self.checks is not None and (self.checks.state != "none" or self._conflicts)
        if now.pull is None or forge is None or not tells:
            return
        try:
            number = save_comment(
                forge,
                now.pull.number,
                summary_markdown(report),
                marker=now.pull.marker,
                known=now.pull.comment,
            )
        except ForgeRefused as error:
            self._tell(error)
            return
        pull = replace(now.pull, comment=number)
        self._checkpoints.save(replace(self._checkpoints.current, pull=pull))

    def _reply(self, forge: Forge, error: str = "") -> None:
        """Reply to the comment of the last round, if its nodes have ended."""
        now = self._checkpoints.current
        asked = now.rounds[-1].asked if now.rounds else None
        if asked is None or asked.replied or now.pull is None or now.ended is None:
            return
        asked = asked._replace(failed=asked.failed or bool(error))
        try:
            text = self._redact(reply_text(now, asked, error, last=not self.takes_comments))
            save_reply(
                forge,
                now.pull.number,
                text,
                thread=asked.thread,
                about=f"{now.pull.page}{asked.link}",
                marker=asked.marker,
            )
            asked = asked._replace(replied=True)
        except ForgeRefused as refused:
            self._tell(refused)
        rounds = (*now.rounds[:-1], now.rounds[-1]._replace(asked=asked))
        self._checkpoints.save(replace(self._checkpoints.current, rounds=rounds))

    def _begin_answer(self, forge: Forge, pull: PullProgress) -> bool:
        """Prepare a round for the next comment that asks for something; return True if one does."""
        now = self._checkpoints.current
        node = speaker(self._request, now)
        if node is None or not self.takes_comments:
            return False
        try:
            is_open = read_pull_request(forge, pull.number).is_open
            found = find_comment(forge, now) if is_open else None
        except ForgeRefused as error:
            self._tell(error)
            return False
        if found is None:
            return False
        said = self._redact(asked_text(found))
        asked = Asked(found.key, found.thread, found.link, f"harness reply {token_hex(8)}")
        self._checkpoints.save(next_round(now, node, said, log_sizes(self._folder), asked=asked))
        return True

    def _look_at_checks(self, forge: Forge, pull: PullProgress) -> None:
        waited_s = time.time() - pull.pushed_at
        try:
            checks = read_checks(forge, pull.commit)
            found = judge(checks, waited_s)
            failed = [check for check in checks if check.state == "failed"]
            goes_on = found.state == "running" or (
                found.state == "failed" and self._begin_round(failed, forge)
            )
            goes_on = goes_on or self._settle(found, forge, pull.number)
            self.checks = replace(self._numbered(found), goes_on=goes_on)
        except ForgeAway as error:
            if waited_s >= LONGEST_WAIT_S:
                self._give_up(error)
            else:
                self.checks = self._numbered(ChecksReport(state="running", goes_on=True))
        except ForgeRefused as error:
            self._give_up(error)

    def _numbered(self, found: ChecksReport) -> ChecksReport:
        rounds = mending_rounds(self._checkpoints.current)
        return replace(found, round=rounds, rounds=self._request.until_green)

    def _begin_round(self, failed: Sequence[Check], forge: Forge) -> bool:
        """Add a round to the checkpoint and return True, or set `error`."""
        now = self._checkpoints.current
        names = ", ".join(one_line(check.name) for check in failed)
        node, rounds = speaker(self._request, now), mending_rounds(now)
        if node is None:
            self.error = f"checks failed, and the blueprint has no agent to mend them: {names}"
        elif rounds >= self._request.until_green:
            self.error = f"checks fail after round {rounds}, the last one: {names}"
        elif rounds and now.pull and now.pull.commit == now.rounds[-1].commit:
            self.error = f"checks failed, and the last round changed nothing: {names}"
        else:
            logs = self._redact(read_logs(forge, failed))
            quote = quote_untrusted(logs, "logs of checks", limit=LOGS_CAP)
            self._checkpoints.save(
                next_round(now, node, f"{_TASK}{quote}", log_sizes(self._folder))
            )
            return True
        return False

    def _settle(self, found: ChecksReport, forge: Forge, number: int) -> bool:
        """Make a green pull request ready; return True if a round about conflicts is to come."""
        shown = read_pull_request(forge, number)
        if found.state == "unknown":
            hours = LONGEST_WAIT_S / 3600
            self._delivery.tell(f"the checks did not end within {hours:g} hours")
        try:
            newer = self._conflicting_base(shown)
        except (GitFailed, RepoInvalid) as error:
            self._tell_conflict(shown, f": {error}")
            return False
        if newer is not None:
            return self._begin_merge(newer) or self._tell_conflict(shown)
        if found.state == "passed" and shown.draft:
            mark_ready(forge, shown)
        return False

    def _conflicting_base(self, shown: OpenPull) -> BaseCommit | None:
        if not shown.may_conflict:
            return None
        now = self._checkpoints.current
        return conflicting_base(self._request, self._dependencies, now, shown.base)

    def _begin_merge(self, newer: BaseCommit) -> bool:
        """Prepare a round that merges the newer base; return False if there may be none."""
        now = self._checkpoints.current
        node = speaker(self._request, now)
        is_last = mending_rounds(now) >= self._request.until_green
        if node is None or is_last or self.error is not None:
            return False
        ahead = next_round(now, node, MERGE_TASK, log_sizes(self._folder), onto=newer.commit)
        self._checkpoints.save(replace(ahead, base=newer))
        return True

    def _tell_conflict(self, shown: OpenPull, why: str = "") -> Literal[False]:
        self._conflicts = True
        self._delivery.tell(
            self._redact(
                f"{shown.page} conflicts with its base and stays as it is{why}. Merge the base "
                "branch into the run's branch, or start another run"
            )
        )
        return False

    def _give_up(self, error: ForgeRefused) -> None:
        self.checks = self._numbered(ChecksReport(state="unknown"))
        self._tell(error)

    def _tell(self, error: ForgeRefused) -> None:
        self._delivery.tell(self._redact(str(error)))
