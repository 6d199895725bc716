"""Reads what a run is about from its forge: the issue of `--set issue=17`, or failed checks.

The text is an untrusted intent. A webhook brings the text of its issue itself, as
`flows/services/webhooks.py` writes it.
"""

from contracts.errors import OptionInvalid
from flows.forge.checks import read_checks, read_logs
from flows.forge.client import Forge, connect
from flows.forge.pulls import FindForge
from flows.runs.request import ResolvedRequest
from nodes.issue import ISSUE_OPTION
from nodes.text import quote_untrusted
from sandbox.branches import push_address
from sandbox.redaction import redact_url
from sandbox.repos import BaseCommit

LOGS_CAP = 14_000
"""Characters of the intent and the logs of failed checks; an intent has at most 20,000."""
_FEWEST = 1_000
"""Characters of the logs beside a long intent."""


def with_forge_text(
    request: ResolvedRequest, base: BaseCommit, find_forge: FindForge
) -> ResolvedRequest:
    """Return the request with the text of its issue, and the logs of failed checks if its blueprint
    reads them.

    Raises:
        OptionInvalid: the issue is no number, or there is no token for the forge.
        ForgeRefused: the forge does not show them.
    """
    request = _with_issue(request, base, find_forge)
    remote = push_address(base) if request.definition.reads_checks else None
    forge = find_forge(remote) if remote else None
    if forge is None:
        return request
    failed = [one for one in read_checks(forge, base.commit) if one.state == "failed"]
    if not failed:
        return request
    limit = max(_FEWEST, LOGS_CAP - len(request.intent))
    quote = quote_untrusted(read_logs(forge, failed), "logs of checks", limit=limit)
    return _with_text(request, quote, "check")


def _with_issue(
    request: ResolvedRequest, base: BaseCommit, find_forge: FindForge
) -> ResolvedRequest:
    """Return the request with the text of the issue that its option names, if it names one.

    Raises:
        OptionInvalid: it is no number, or there is no token for the forge.
        ForgeRefused: the forge does not show the issue.
    """
    number = request.issue
    if not number or request.intent_from:
        return request
    if not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise OptionInvalid(f"--set {ISSUE_OPTION}={number!r} must be the number of an issue")
    remote = push_address(base)
    forge = find_forge(remote) if remote else None
    if forge is None:
        where = redact_url(remote) if remote else "a repository without a remote"
        raise OptionInvalid(
            f"--set {ISSUE_OPTION}={number} asks a forge for the issue, and there is no token for "
            f"that of {where}"
        )
    quote = quote_untrusted(_read_issue(forge, int(number)), f"issue {number}")
    return _with_text(request, quote, f"issue:{int(number)}")


def _with_text(request: ResolvedRequest, quote: str, source: str) -> ResolvedRequest:
    """Return the request with a quote below its intent, which nobody trusts from then on."""
    intent = "\n\n".join(filter(None, (request.intent, quote)))
    return request.changed(intent=intent, intent_from=request.intent_from or source)


def _read_issue(forge: Forge, number: int) -> str:
    with connect(forge, f"issue {number} cannot be read") as client:
        shown = client.get(f"{forge.repository}/issues/{number}")
        text = shown.get("description" if forge.kind == "gitlab" else "body") or ""
        return f"{shown['title']}\n\n{text}"
