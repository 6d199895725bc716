"""Operations that leave the sandbox: mail, pushes, whole runs, and a word with the person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from contracts.json import Json
from policy.file_labels import FileLabels
from policy.plan.registry import Operation, operation
from policy.plan.workspace_operations import WORKSPACE, to_text


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One mail. `to` and `cc` hold one address each."""

    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    subject: str = ""
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class OutsideActions:
    """What the operations here do, as functions; each raises a HarnessError when it cannot."""

    send: Callable[[Mail], None]
    push: Callable[[str, str], str]
    """Takes a remote and a branch; gives the commit that is there now."""
    run_blueprint: Callable[[str, str], Json]
    """Takes a blueprint's name and an intent; gives the run's report."""
    ask_person: Callable[[str], str]
    """Takes a question; gives the person's own words."""


def outside_operations(outside: OutsideActions, labels: FileLabels) -> tuple[Operation, ...]:
    """The operations, over these functions; what a run reports may hold any file."""

    @operation(effect="egress", requires=["SEND_EMAIL"])
    def send_email(
        to: Annotated[str | list[str], "recipient"],
        subject: Annotated[str, "content"],
        body: Annotated[object, "content"],
        cc: Annotated[str | list[str] | None, "recipient"] = None,
    ) -> Json:
        """Send one mail; body may be a text or any result."""
        mail = Mail(to=_each(to), cc=_each(cc), subject=subject, body=to_text(body))
        outside.send(mail)
        return {"sent_to": [*mail.to, *mail.cc]}

    @operation(effect="egress", requires=["GIT_PUSH"], place=WORKSPACE)
    def git_push(remote: Annotated[str, "recipient"], branch: Annotated[str, "authority"]) -> Json:
        """Push what is committed in the workspace as this branch of this remote."""
        return {"commit": outside.push(remote, branch)}

    @operation(
        effect="write",
        requires=["RUN_BLUEPRINT"],
        label_of=lambda _: labels.all_labels,
        place=WORKSPACE,
    )
    def run_blueprint(
        blueprint: Annotated[str, "authority"], intent: Annotated[str, "authority"]
    ) -> Json:
        """Run a blueprint on the repository with this intent; gives its report."""
        return outside.run_blueprint(blueprint, intent)

    @operation(effect="read", requires=["ASK_PERSON"], vouched=True)
    def ask_person(question: Annotated[object, "content"]) -> Json:
        """Ask the person that the plan is for; their own words are trusted."""
        return outside.ask_person(to_text(question))

    return (send_email, git_push, run_blueprint, ask_person)


def _each(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
