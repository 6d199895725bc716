"""Rounds after the push: a pull request's checks fail, an agent mends it, the run pushes again.

A round is one more node of the run. Its agent continues the conversation of the agent that worked
last, in the files as they were pushed. The run waits between rounds without a process; see
`flows/orchestration/wait_checks.py`.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contracts.errors import ForgeAway, ForgeRefused
from contracts.model_access import AgentUsage
from contracts.run import ChecksReport, RunReport
from flows.audit.run_events import log_sizes
from flows.execution.delivery import Delivery
from flows.execution.dependencies import RunDependencies
from flows.execution.forge import mark_ready, read_pull_request, save_comment
from flows.execution.forge_checks import Check, read_checks, read_logs
from flows.execution.forge_client import Forge
from flows.runs import checkpoint
from flows.runs.checkpoint import Checkpoint, Round, round_name
from flows.runs.checkpoints import Checkpoints
from flows.runs.report import report_markdown
from flows.runs.request import ResolvedRequest
from nodes.text import Redact, one_line, quote_untrusted
from nodes.types import Agentic
from sandbox.branches import push_address

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


def with_rounds(request: ResolvedRequest, rounds: Sequence[Round]) -> ResolvedRequest:
    """Return the request whose blueprint has one more node for each round."""
    nodes = {node.name: node for node in request.agentic_nodes}
    added: list[Agentic] = []
    for number, one in enumerate(rounds, 1):
        node = _round_node(nodes[one.node], number, one.said)
        nodes[node.name] = node
        added.append(node)
    if not added:
        return request
    definition = request.definition
    longer = replace(definition, nodes=(*definition.nodes, *added))
    return request.changed(definition=longer)


def _round_node(template: Agentic, number: int, said: str) -> Agentic:
    about = "Mend what failed after the push"
    return replace(
        template,
        name=round_name(number),
        description=about,
        prompt=lambda _: said,
        skip=None,
    )


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
        redact: Redact,
    ) -> None:
        self._request = request
        self._checkpoints = checkpoints
        self._delivery = delivery
        self._folder = folder
        self._redact = redact
        self.error: str | None = None
        """Why the run failed although its nodes succeeded."""
        self.checks: ChecksReport | None = None
        if checkpoints.current.rounds:
            self.checks = self._numbered(ChecksReport(state="failed"))
        if self.is_followed:
            checkpoints.expect_rounds()

    @property
    def is_followed(self) -> bool:
        """Return whether the run waits for the checks of its pull request, should one be opened."""
        return self._request.until_green > 0 and self._delivery.forge is not None

    @property
    def goes_on(self) -> bool:
        """True while checks run, or a round is to come."""
        return self.checks is not None and self.checks.goes_on

    def look(self) -> None:
        """Ask for the checks of the pushed commit; prepare a round if they failed."""
        now, forge = self._checkpoints.current, self._delivery.forge
        if not self.is_followed or forge is None or now.pull is None:
            return
        waited_s = time.time() - now.pull.pushed_at
        try:
            checks = read_checks(forge, now.pull.commit)
            found = judge(checks, waited_s)
            failed = [check for check in checks if check.state == "failed"]
            goes_on = found.state == "running" or (
                found.state == "failed" and self._begin_round(failed, forge)
            )
            if not goes_on:
                self._settle(found, forge, now.pull.number)
            self.checks = replace(self._numbered(found), goes_on=goes_on)
        except ForgeAway as error:
            if waited_s >= LONGEST_WAIT_S:
                self._give_up(error)
            else:
                self.checks = self._numbered(ChecksReport(state="running", goes_on=True))
        except ForgeRefused as error:
            self._give_up(error)

    def comment(self, report: RunReport) -> None:
        """Write the report into the pull request's one comment, if its checks are followed."""
        now, forge = self._checkpoints.current, self._delivery.forge
        if now.pull is None or forge is None or self.checks is None or self.checks.state == "none":
            return
        try:
            number = save_comment(
                forge,
                now.pull.number,
                report_markdown(report, diff=""),
                marker=now.pull.marker,
                known=now.pull.comment,
            )
        except ForgeRefused as error:
            self._delivery.tell(self._redact(str(error)))
            return
        pull = replace(now.pull, comment=number)
        self._checkpoints.save(replace(self._checkpoints.current, pull=pull))

    def _numbered(self, found: ChecksReport) -> ChecksReport:
        rounds = len(self._checkpoints.current.rounds)
        return replace(found, round=rounds, rounds=self._request.until_green)

    def _begin_round(self, failed: Sequence[Check], forge: Forge) -> bool:
        """Add a round to the checkpoint and return True, or set `error`."""
        now = self._checkpoints.current
        names = ", ".join(one_line(check.name) for check in failed)
        speaker = _speaker(self._request, now)
        if speaker is None:
            self.error = f"checks failed, and the blueprint has no agent to mend them: {names}"
        elif len(now.rounds) >= self._request.until_green:
            self.error = f"checks fail after round {len(now.rounds)}, the last one: {names}"
        elif now.rounds and now.pull and now.pull.commit == now.rounds[-1].commit:
            self.error = f"checks failed, and the last round changed nothing: {names}"
        else:
            logs = self._redact(read_logs(forge, failed))
            quote = quote_untrusted(logs, "logs of checks", limit=LOGS_CAP)
            self._checkpoints.save(
                next_round(now, speaker, f"{_TASK}{quote}", log_sizes(self._folder))
            )
            return True
        return False

    def _settle(self, found: ChecksReport, forge: Forge, number: int) -> None:
        """Make a green pull request ready; say where it conflicts with its base."""
        shown = read_pull_request(forge, number)
        if shown.conflicts:
            self._delivery.tell(
                f"{shown.page} conflicts with its base and stays as it is: merge the base branch "
                "into the run's branch, or start another run"
            )
        elif found.state == "passed" and shown.draft:
            mark_ready(forge, shown)
        if found.state == "unknown":
            hours = LONGEST_WAIT_S / 3600
            self._delivery.tell(f"the checks did not end within {hours:g} hours")

    def _give_up(self, error: ForgeRefused) -> None:
        self.checks = self._numbered(ChecksReport(state="unknown"))
        self._delivery.tell(self._redact(str(error)))


def next_round(now: Checkpoint, speaker: str, said: str, heard: dict[str, int]) -> Checkpoint:
    """Return the checkpoint of a run that ended, with one more round to run."""
    name, commit = round_name(len(now.rounds) + 1), now.pull.commit if now.pull else ""
    talk = now.waiting.get(speaker)
    told = {name: replace(talk, told=said, spent=AgentUsage(), elapsed_s=0.0)} if talk else {}
    return replace(
        now,
        rounds=(*now.rounds, Round(said, speaker, commit)),
        talks={**now.talks, **told},
        ended=None,
        heard=heard,
    )


def _speaker(request: ResolvedRequest, now: Checkpoint) -> str | None:
    """Return the node whose conversation a round continues; None without an agent."""
    names = [node.name for node in request.agentic_nodes]
    spoke = [name for name in names if name in now.waiting]
    return next(iter((spoke or names)[::-1]), None)
