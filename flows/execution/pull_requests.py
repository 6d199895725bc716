"""Decides whether a pushed run gets a pull request, and writes its title and text."""

import re
from collections.abc import Callable, Mapping

from contracts.run import RunReport
from flows.config.settings import ForgeSettings
from flows.execution.forge import Forge, PullRequest, open_pull_request, parse_remote
from flows.runs.report import report_markdown
from nodes.text import strip_control_characters

OpenPullRequest = Callable[[str, str | None, RunReport], str | None]
"""Takes the remote, the base branch and the report; returns the page of the pull request, or None
if no token is configured for the remote's host."""

_POWER = re.compile(r"(?<=[@#])(?=\w)|(?<=\w:)(?=//)")
_QUICK_ACTION = re.compile(r"^(\s*)/", re.MULTILINE)
_GAP = "\u200b"


def pull_request_opener(
    forges: Mapping[str, ForgeSettings], environ: Mapping[str, str]
) -> OpenPullRequest:
    """Return an `OpenPullRequest` for these forges, by host name."""

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
    """Return one line: the blueprint and the intent."""
    whole = f"{report.blueprint}: {report.intent or report.run_id}"
    return inert_markdown(" ".join(strip_control_characters(whole).split()))


def body(report: RunReport) -> str:
    """Return the report without its diff, as inert Markdown."""
    return inert_markdown(report_markdown(report, diff=""))


def inert_markdown(text: str) -> str:
    """Return text that looks the same but mentions nobody, links nothing and triggers no command.

    Forges act on `@name`, `fixes #12`, addresses of issues and, on GitLab, lines that start with a
    slash. Zero-width spaces stop that.
    """
    return _QUICK_ACTION.sub(rf"\1{_GAP}/", _POWER.sub(_GAP, text))
