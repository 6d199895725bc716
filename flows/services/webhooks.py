"""Webhooks of forges: signature, replay protection, and the deployment that a rule starts.

Anybody who can write an issue writes the text of a webhook. A run gets it as quoted data, and only
for repositories and labels that the operator named.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast
from uuid import UUID

from contracts.errors import HarnessError, WebhookRefused
from flows.config.settings import Settings, WebhookRule, WebhookSettings
from flows.runs.checkpoint import OUTPUT_MARK
from flows.runs.home import KEPT
from flows.runs.runs import is_known, read_entry, try_read_record
from flows.services import prefect_server
from flows.services.check_wait import end_wait
from flows.services.deploy import missing_worker_warning, start_deployment
from nodes.text import quote_untrusted, strip_control_characters

OWN_BRANCHES = "harness/"
"""Prefix of branches made by runs. A failed check there starts no run: that would never end."""

ANSWERS = "zz-answer-comments"
"""Deployment that looks for comments on the pull requests of this home's runs."""

KEEP_S = 90 * 24 * 3600.0
"""How long a delivery is remembered."""

Payload = Mapping[str, object]

_BRANCHES_OF_CHECKS = (
    ("check_run", "check_suite", "head_branch"),
    ("check_suite", "head_branch"),
    ("workflow_run", "head_branch"),
    ("workflow_job", "head_branch"),
    ("object_attributes", "ref"),
)
"""Where the payloads of GitHub, Gitea and GitLab have the branch that was checked."""
_GITLAB_NAME = "path_with_namespace"


@dataclass(frozen=True, kw_only=True)
class DeploymentStart:
    """A deployment to start, with its parameters.

    Deliveries with the same non-empty `once` start it only once.
    """

    deployment: str
    parameters: Mapping[str, object]
    once: str = ""


def receive(settings: Settings, body: bytes, *, event: str, signature: str, delivery: str) -> str:
    """Start the deployment that the delivery asks for; return one line about the outcome.

    Raises:
        WebhookRefused: no secret is set, the signature is wrong, or it was accepted before.
        OptionInvalid: there is no such deployment, or its form refuses the parameters.
        Unavailable: no Prefect server answers. After either, the delivery may be sent again.
    """
    check_signature(_secret(settings), body, signature)
    payload = _payload(body)
    start = matching_start(event, payload, settings.webhooks)
    if woken := _wake(payload, settings):
        return woken
    if start is None:
        return "no rule matches: nothing is started"
    deliveries = Deliveries(settings.home / "webhooks" / "taken")
    record = deliveries.record(body, delivery, start.once, lambda run: _was_lost(settings, run))
    try:
        api = prefect_server.api_url(settings)
        warning = missing_worker_warning(api)
        run = start_deployment(api, start.deployment, start.parameters)
    except HarnessError:
        record.unlink()
        raise
    record.write_text(run)
    return f"started {start.deployment} as flow run {run}" + (f"; {warning}" if warning else "")


def receive_from_gitlab(settings: Settings, body: bytes, *, token: str) -> str:
    """Let a run go on whose pipeline has finished or whose merge request has a comment.

    Return one line about the outcome.

    GitLab sends its secret as it is, and signs nothing.

    Raises:
        WebhookRefused: no secret is set, or the token is another one.
        Unavailable: no Prefect server answers.
    """
    if not hmac.compare_digest(_secret(settings).encode(), token.encode()):
        raise WebhookRefused("the token is not the secret of `webhooks.secret`")
    return _wake(_payload(body), settings) or "no run waits for this: nothing is done"


def _secret(settings: Settings) -> str:
    secret = settings.webhooks.secret
    if secret is None:
        raise WebhookRefused("no secret is set: `webhooks.secret`")
    return secret.get_secret_value()


def _payload(body: bytes) -> Payload:
    try:
        return cast("Payload", json.loads(body))
    except ValueError as error:
        raise WebhookRefused(f"the body is not JSON: {error}") from error


def _wake(payload: Payload, settings: Settings) -> str | None:
    """Let runs ask the forge now about checks or comments; return None if none waits for this.

    The delivery only says when to ask, so it is not recorded, and its text is not used.
    """
    waiting = waiting_flow_run(payload, settings)
    if waiting and end_wait(prefect_server.api_url(settings), waiting):
        return f"a check of flow run {waiting} has finished: it goes on"
    if is_comment(payload, settings) and any(settings.runs.glob(f"*/{KEPT}")):
        run = start_deployment(prefect_server.api_url(settings), ANSWERS, {})
        return f"comments are looked for in flow run {run}"
    return None


def is_comment(payload: Payload, settings: Settings) -> bool:
    """Return whether the delivery tells of a comment or review on a pull request."""
    if not _is_known(payload, settings):
        return False
    if _at(payload, "issue", "number") is not None:
        is_pull = _at(payload, "issue", "pull_request") or _at(payload, "is_pull")
        return bool(is_pull) and _at(payload, "comment") is not None
    reviewed = _at(payload, "comment") or _at(payload, "review")
    on_github = _at(payload, "pull_request", "number") is not None and reviewed is not None
    return on_github or (
        _at(payload, "object_kind") == "note" and _at(payload, "merge_request") is not None
    )


def _is_known(payload: Payload, settings: Settings) -> bool:
    names = (_at(payload, "repository", "full_name"), _at(payload, "project", _GITLAB_NAME))
    return not settings.webhooks.repositories.keys().isdisjoint(map(str, names))


def _was_lost(settings: Settings, flow_run: str) -> bool:
    """Return True if the run was killed, or an outage ended it before its nodes were done."""
    from prefect.exceptions import ObjectNotFound

    api = prefect_server.api_url(settings)
    with suppress(ValueError, ObjectNotFound), prefect_server.prefect_client(api) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        if state is not None and state.is_failed():
            run_id = flow_run[-8:]
            known = is_known(settings.runs, run_id)
            return known and read_entry(settings.runs, run_id).resumable
        return state is not None and state.is_crashed()
    return False


def waiting_flow_run(payload: Payload, settings: Settings) -> str | None:
    """Return the flow run whose pushed branch the checks of this delivery are about, or None."""
    if not _is_known(payload, settings):
        return None
    for place in _BRANCHES_OF_CHECKS:
        branch = str(_at(payload, *place) or "")
        run_id = branch.removeprefix(OWN_BRANCHES).partition("/")[0]
        if branch.startswith(OWN_BRANCHES) and run_id.isalnum():
            record = try_read_record(settings.runs / run_id)
            return record.flow_run_id if record else None
    return None


def check_signature(secret: str, body: bytes, signature: str) -> None:
    """Check GitHub's signature of the body (`X-Hub-Signature-256`).

    Raises:
        WebhookRefused: the body was not signed with this secret.
    """
    # Compared in constant time: the time must not tell how many characters were right.
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(f"sha256={digest}".encode(), signature.encode()):
        raise WebhookRefused("the signature does not fit the body: is the secret the same?")


class Deliveries:
    """The accepted deliveries, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(
        self,
        body: bytes,
        delivery: str,
        once: str = "",
        was_lost: Callable[[str], bool] = lambda _: False,
    ) -> Path:
        """Record the delivery; return its file, where the caller writes the id of the run.

        The caller removes the file if no run could be started. A delivery is identified by `once`,
        else by its signed body: a replay may have another delivery id. It is accepted again if
        `was_lost(run id)` is true.

        Raises:
            WebhookRefused: the delivery was accepted before.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_old()
        file = self._folder / hashlib.sha256(once.encode(errors="replace") or body).hexdigest()
        if once and file.is_file() and was_lost(file.read_text(errors="replace")):
            file.unlink(missing_ok=True)
        try:
            # "x" fails if the file exists: of two deliveries at once, one is accepted.
            with file.open("x") as opened:
                opened.write(strip_control_characters(delivery)[:200])
        except FileExistsError as error:
            subject = "this commit" if once else "this delivery"
            raise WebhookRefused(f"{subject} was accepted before: nothing is started") from error
        return file

    def _remove_old(self) -> None:
        oldest = time.time() - KEEP_S
        for file in self._folder.iterdir():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)


def matching_start(
    event: str, payload: Payload, settings: WebhookSettings
) -> DeploymentStart | None:
    """Return what the first matching rule starts, or None if no rule matches."""
    name = str(_at(payload, "repository", "full_name"))
    repo = settings.repositories.get(name)
    if repo is None:
        return None
    for rule in settings.rules:
        if fnmatchcase(name, rule.repository):
            parameters = _parameters(event, payload, rule)
            if parameters is not None:
                return DeploymentStart(
                    deployment=rule.deployment,
                    parameters={**rule.parameters, "repo": repo, **parameters},
                    once=_once(name, payload, rule),
                )
    return None


def _once(repository: str, payload: Payload, rule: WebhookRule) -> str:
    """One run repairs all checks that fail on a commit."""
    commit = _at(payload, "check_run", "head_sha")
    return f"{repository} {commit} {rule.deployment}" if commit else ""


def _parameters(event: str, payload: Payload, rule: WebhookRule) -> dict[str, object] | None:
    match (rule.on, event, _at(payload, "action")):
        case ("issue labelled", "issues", "labeled"):
            named = _at(payload, "label", "name") == rule.label
            return _issue_parameters(payload, "Do what issue {} asks for.") if named else None
        case ("issue opened", "issues", "opened"):
            # What a run has opened starts no other run: that might never end.
            is_ours = f"<!-- {OUTPUT_MARK}" in str(_at(payload, "issue", "body"))
            return None if is_ours else _issue_parameters(payload, "Issue {} was opened.")
        case ("check failed", "check_run", "completed"):
            return _check_parameters(payload)
        case _:
            return None


def _issue_parameters(payload: Payload, wanted: str) -> dict[str, object]:
    number = _at(payload, "issue", "number")
    text = f"{_at(payload, 'issue', 'title')}\n\n{_at(payload, 'issue', 'body') or ''}"
    quote = quote_untrusted(text, f"issue {number}")
    return {
        "intent": f"{wanted.format(number)}\n\n{quote}",
        "intent_from": f"issue:{number}",
    }


def _check_parameters(payload: Payload) -> dict[str, object] | None:
    branch = str(_at(payload, "check_run", "check_suite", "head_branch") or "")
    failed = _at(payload, "check_run", "conclusion") == "failure"
    if not failed or not branch or branch.startswith(OWN_BRANCHES):
        return None
    summary = _at(payload, "check_run", "output", "summary") or "nothing"
    quote = quote_untrusted(f"{_at(payload, 'check_run', 'name')}: {summary}", "the check")
    return {
        "ref": branch,
        "intent": f"A check failed: make it pass.\n\n{quote}",
        "intent_from": "check",
    }


def _at(payload: object, *path: str) -> object:
    """Return the value at this path of the payload, or None."""
    for name in path:
        payload = cast("Payload", payload).get(name) if isinstance(payload, Mapping) else None
    return payload
