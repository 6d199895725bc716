"""What a forge's checks say of a commit, and the logs of the jobs that failed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from flows.forge.client import Forge, ForgeClient, Shape, connect, listed
from nodes.text import strip_control_characters, truncate_middle

CheckState = Literal["running", "passed", "failed"]

MOST_LOGS = 4
"""Failed jobs whose logs an agent is given; the others are named."""
LOG_CAP = 6_000
"""Characters of one log, more from its end than from its beginning."""

_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*Z ", re.MULTILINE)

_GITHUB_PASSED = {"success", "neutral", "skipped"}
_GITLAB_STATES: dict[str, CheckState] = {
    "success": "passed",
    "skipped": "passed",
    "manual": "passed",
    "failed": "failed",
    "canceled": "failed",
}
_STATUS_STATES: dict[str, CheckState] = {
    "success": "passed",
    "warning": "passed",
    "skipped": "passed",
    "failure": "failed",
    "error": "failed",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a commit. `job` is the path of its log in the API, empty if it has none."""

    name: str
    state: CheckState
    log: str = ""
    note: str = ""
    """What the check itself says, in a line or two."""


def read_checks(forge: Forge, commit: str) -> tuple[Check, ...]:
    """Return the checks of a commit, sorted by name; none if the forge knows of none.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "the checks cannot be read") as client:
        return tuple(sorted(_checks(forge, client, commit), key=lambda check: check.name))


def read_logs(forge: Forge, failed: Sequence[Check]) -> str:
    """Return what the failed checks printed, cut to a length that an agent can read.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "the logs cannot be read") as client:
        parts = [_log(client, check) for check in failed[:MOST_LOGS]]
    parts += [f"{check.name} failed, too" for check in failed[MOST_LOGS:]]
    return "\n\n".join(parts)


def _log(client: ForgeClient, check: Check) -> str:
    text = client.text(check.log) if check.log else None
    shown = _TIMESTAMP.sub("", strip_control_characters(text or check.note or "it shows no log"))
    return f"== {check.name} failed ==\n{truncate_middle(shown.strip(), LOG_CAP)}"


def _checks(forge: Forge, client: ForgeClient, commit: str) -> Iterator[Check]:
    match forge.kind:
        case "github":
            yield from _github_checks(forge, client, commit)
        case "gitlab":
            yield from _gitlab_checks(forge, client, commit)
        case "gitea":
            yield from _gitea_checks(forge, client, commit)
        case _:
            assert_never(forge.kind)


def _github_checks(forge: Forge, client: ForgeClient, commit: str) -> Iterator[Check]:
    """Check runs of apps, and statuses, which older services write. A job's id is its run's."""
    place = f"{forge.repository}/commits/{commit}"
    for run in client.pages(f"{place}/check-runs", key="check_runs"):
        passed = run["conclusion"] in _GITHUB_PASSED
        output = run.get("output")
        yield Check(
            name=str(run["name"]),
            state="running" if run["status"] != "completed" else "passed" if passed else "failed",
            log=f"{forge.repository}/actions/jobs/{run['id']}/logs",
            note=str((output.get("summary") if isinstance(output, dict) else None) or ""),
        )
    for status in listed(client.get(f"{place}/status").get("statuses")):
        yield _status_check(status, state=status["state"])


def _gitlab_checks(forge: Forge, client: ForgeClient, commit: str) -> Iterator[Check]:
    """Jobs of pipelines, and statuses from outside. Those that may fail pass."""
    for status in client.pages(f"{forge.repository}/repository/commits/{commit}/statuses"):
        state = _GITLAB_STATES.get(str(status["status"]), "running")
        yield Check(
            name=str(status["name"]),
            state="passed" if state == "failed" and status.get("allow_failure") else state,
            log=f"{forge.repository}/jobs/{status['id']}/trace",
            note=str(status.get("description") or ""),
        )


def _gitea_checks(forge: Forge, client: ForgeClient, commit: str) -> Iterator[Check]:
    """Statuses. Failed jobs have logs under ids of their own, and the status names the job."""
    shown = client.get(f"{forge.repository}/commits/{commit}/status")
    jobs: dict[str, object] = {}
    statuses = listed(shown.get("statuses"))
    if any(_STATUS_STATES.get(str(one["status"])) == "failed" for one in statuses):
        jobs = _gitea_jobs(forge, client, commit)
    for status in statuses:
        check = _status_check(status, state=status["status"])
        job = next((id_ for name, id_ in jobs.items() if f"/ {name} (" in f"{check.name} ("), None)
        log = f"{forge.repository}/actions/jobs/{job}/logs" if job else ""
        yield Check(name=check.name, state=check.state, note=check.note, log=log)


def _gitea_jobs(forge: Forge, client: ForgeClient, commit: str) -> dict[str, object]:
    """Return ids of the commit's jobs by name; none before Gitea 1.25 or without Actions."""
    runs = f"{forge.repository}/actions/runs"
    if not client.exists(f"{runs}?head_sha={commit}"):
        return {}
    found = client.pages(runs, key="workflow_runs", head_sha=commit)
    places = [f"{runs}/{run['id']}/jobs" for run in found]
    jobs = [job for place in places for job in client.pages(place, key="jobs")]
    return {str(job["name"]): job["id"] for job in jobs}


def _status_check(status: Shape, *, state: object) -> Check:
    return Check(
        name=str(status["context"]),
        state=_STATUS_STATES.get(str(state), "running"),
        note=str(status.get("description") or ""),
    )
