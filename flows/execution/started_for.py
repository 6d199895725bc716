"""Reads the issue that a run is started for, by `--set issue=17`. Its text is an untrusted intent.

A webhook brings the text itself, as `flows/services/webhooks.py` writes it.
"""

from contracts.errors import OptionInvalid
from flows.execution.forge import FindForge
from flows.execution.forge_client import Forge, connect
from flows.runs.request import ResolvedRequest
from nodes.issue import ISSUE_OPTION, ISSUE_OPTIONS
from nodes.text import quote_untrusted
from sandbox.branches import push_address
from sandbox.redaction import redact_url
from sandbox.repos import BaseCommit


def with_issue(
    request: ResolvedRequest, base: BaseCommit, find_forge: FindForge
) -> ResolvedRequest:
    """Return the request with the text of the issue that its option names, if it names one.

    Raises:
        OptionInvalid: it is no number, or there is no token for the forge.
        ForgeRefused: the forge does not show the issue.
    """
    takes_issue = request.definition.options.get(ISSUE_OPTION) == ISSUE_OPTIONS[ISSUE_OPTION]
    number = request.options.get(ISSUE_OPTION, "") if takes_issue else ""
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
    intent = "\n\n".join(filter(None, (request.intent, quote)))
    return request.changed(intent=intent, intent_from=f"issue:{int(number)}")


def _read_issue(forge: Forge, number: int) -> str:
    with connect(forge, f"issue {number} cannot be read") as client:
        shown = client.get(f"{forge.repository}/issues/{number}")
        text = shown.get("description" if forge.kind == "gitlab" else "body") or ""
        return f"{shown['title']}\n\n{text}"
