"""The pull request of a run that pushed: whether there is to be one, and what it says."""

import re
from collections.abc import Callable, Mapping

from contracts.run import RunReport
from flows.config.settings import ForgeSettings
from flows.execution.forge import Forge, PullRequest, open_pull_request, parse_remote
from flows.runs.report import report_markdown
from nodes.text import strip_control_characters

OpenPullRequest = Callable[[str, str | None, RunReport], str | None]
"""Takes the remote that was pushed to, the branch the run began from and the report so far;
gives the page of the pull request, None where the remote is no forge that we have a token for."""

_POWER = re.compile(r"(?<=[@#])(?=\w)|(?<=\w:)(?=//)")
_QUICK_ACTION = re.compile(r"^(\s*)/", re.MULTILINE)
_GAP = "\u200b"


def pull_request_opener(
    forges: Mapping[str, ForgeSettings], environ: Mapping[str, str]
) -> OpenPullRequest:
    """A `Propose` for these forges, by host name."""

    def propose(remote: str, base: str | None, report: RunReport) -> str | None:
        found = parse_remote(remote)
        wanted = forges.get(found[0]) if found else None
        token = environ.get(wanted.token_variable) if wanted else None
        if found is None or wanted is None or not token or report.branch is None:
            return None
        forge = Forge(kind=wanted.kind, api=wanted.api, project=found[1], token=token)
        pull = PullRequest(
            branch=report.branch,
            base=base,
            title=title(report),
            body=body(report),
            draft=wanted.draft,
        )
        return open_pull_request(forge, pull)

    return propose


def title(report: RunReport) -> str:
    """One line: the blueprint and what was asked."""
    whole = f"{report.blueprint}: {report.intent or report.run_id}"
    return inert_markdown(" ".join(strip_control_characters(whole).split()))


def body(report: RunReport) -> str:
    """The report without its diff, which the forge shows; nothing in it has power there."""
    return inert_markdown(report_markdown(report, diff=""))


def inert_markdown(text: str) -> str:
    """The text as it was to the eye; it calls nobody, closes nothing, links and commands nothing.

    Forges read `@name`, `fixes #12`, addresses of issues, and (GitLab) lines that begin with
    a slash as orders, wherever the text came from.
    """
    return _QUICK_ACTION.sub(rf"\1{_GAP}/", _POWER.sub(_GAP, text))
