"""Operations on the workspace in the sandbox, and operations that lead out of it."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from json import dumps
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from contracts.entity import Label
from contracts.json import Json, json_digest
from contracts.sandbox import Command, ExecResult, Sandbox
from contracts.tool import Denied
from policy.authority import FileLabels, normalized_address
from policy.errors import OperationFailed, WaitingForPerson
from policy.plan.meetings import meeting_operation
from policy.plan.registry import Arguments, Operation, operation, plain_json
from policy.types import QUESTION_RULE, ApprovalRequest

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

WORKSPACE = "workspace"
FILE_LIMIT = 1024 * 1024
OUTPUT_LIMIT = 64 * 1024
COMMAND_TIMEOUT_S = 600.0


def _matching(pattern: str, what: str) -> AfterValidator:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"{text!r} is not {what}")
        return text

    return AfterValidator(check)


WebAddress = Annotated[str, _matching(r"https?://[^\s\x00]+", "a URL of a web page")]
FETCH_TIMEOUT_S = 60.0


def workspace_operations(
    sandbox: Callable[[], Sandbox], labels: FileLabels, env: Callable[[], Mapping[str, str]]
) -> tuple[Operation, ...]:
    """Return the operations; `sandbox` opens the sandbox when the first of them runs.

    `env` returns the environment variables of commands, which lead to the egress proxy.
    """

    def run(*argv: str, stdin: bytes = b"", timeout_s: float = COMMAND_TIMEOUT_S) -> ExecResult:
        command = Command(
            argv=argv, env=env(), stdin=stdin, timeout_s=timeout_s, output_limit=OUTPUT_LIMIT
        )
        return sandbox().exec(command)

    def any_file(_arguments: Arguments, _result: Json) -> Label:
        return labels.all_labels

    def one_file(arguments: Arguments, _result: Json) -> Label:
        """Join the tags of the path and of its link target, so that a link hides no tag."""
        path = str(arguments["path"])
        real = _text(run("realpath", "--", path).stdout).strip()
        target = posixpath.relpath(real, sandbox().work_dir) if real else path
        return labels.label_for(path).join(labels.label_for(target))

    @operation(effect="read", requires=["READ_FILE"], label_of=one_file, place=WORKSPACE)
    def read_file(path: Annotated[str, "authority"]) -> Json:
        """Give the text of one file of the workspace."""
        return _text(sandbox().read_file(path, FILE_LIMIT))

    @operation(effect="read", requires=["READ_FILE"], label_of=any_file, place=WORKSPACE)
    def search_code(text: Annotated[str, "query"], path: Annotated[str, "authority"] = ".") -> Json:
        """Give the lines that hold this text, as a list of path, line and text; case is ignored."""
        # -F searches the text as it is, -I and -s skip binary and unreadable files.
        argv = ("grep", "-rnIFis", "--exclude-dir=.git", "-m", "50", "-e", text, "--", path)
        lines = _text(run(*argv).stdout).splitlines()[:200]
        found = [line.split(":", 2) for line in lines if line.count(":") >= 2]
        return [{"path": posixpath.normpath(p), "line": n, "text": t} for p, n, t in found]

    @operation(effect="write", requires=["WRITE_FILE"], place=WORKSPACE)
    def write_file(path: Annotated[str, "authority"], text: Annotated[object, "content"]) -> Json:
        """Write one file of the workspace whole."""
        data = to_text(text).encode()
        sandbox().write_file(path, data)
        return {"path": path, "bytes": len(data)}

    @operation(effect="write", requires=["RUN_COMMAND"], label_of=any_file, place=WORKSPACE)
    def run_command(
        command: Annotated[str, "authority"], stdin: Annotated[object, "content"] = ""
    ) -> Json:
        """Run a shell command in the workspace; gives exit_code and output, also of a failure."""
        result = run("sh", "-c", command, stdin=to_text(stdin).encode())
        return {"exit_code": result.exit_code, "output": result.text}

    @operation(effect="write", requires=["GIT_COMMIT"], place=WORKSPACE)
    def git_commit(message: Annotated[str, "content"]) -> Json:
        """Commit everything that changed in the workspace."""
        for argv in (("git", "add", "--all"), ("git", "commit", "--quiet", "-m", message)):
            result = run(*argv)
            if not result.ok:
                raise OperationFailed(f"{' '.join(argv[:2])} failed: {result.text[-300:]}")
        return {"commit": run("git", "rev-parse", "HEAD").text}

    @operation(effect="egress", requires=["HTTP_FETCH"], label_of=_page_label)
    def http_fetch(url: Annotated[WebAddress, "recipient"]) -> Json:
        """Get a page by its URL; gives status and text."""
        # The request starts in the sandbox, so only the allowed hosts can be reached.
        script = files("policy").joinpath("inside_fetch.py").read_bytes()
        result = run("python3", "-", url, stdin=script, timeout_s=FETCH_TIMEOUT_S)
        if not result.ok:
            raise OperationFailed(f"{url!r} could not be fetched: {result.text[-300:]}")
        status, _, text = _text(result.stdout).partition("\n")
        return {"status": int(status), "text": text}

    notes = meeting_operation(sandbox, labels, place=WORKSPACE)
    return (read_file, search_code, notes, write_file, run_command, git_commit, http_fetch)


# A comma or a line break would add recipients that nobody approved.
Address = Annotated[str, _matching(r"[^\s,;<>\"()@\x00]+@[^\s,;<>\"()@\x00]+", "one plain address")]
Addresses = Address | Annotated[list[Address], Field(min_length=1)]
OneLine = Annotated[str, _matching(r"[^\r\n\x00]*", "one line")]


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file of a mail."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One mail; each string in `to` and `cc` is one address."""

    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    subject: str = ""
    body: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OutsideActions:
    """The actions behind the operations; each raises a HarnessError if it fails."""

    send: Callable[[Mail], None]
    push: Callable[[str, str], str]
    """Takes a remote and a branch; returns the pushed commit."""
    run_blueprint: Callable[[str, str], Json]
    """Takes the name of a blueprint and an intent; returns the run's report."""
    ask_person: Callable[[str], str]
    """Takes a question; returns the person's answer."""


def outside_operations(actions: OutsideActions, labels: FileLabels) -> tuple[Operation, ...]:
    """Return the operations; the report of a run has the tags of all files."""

    @operation(effect="egress", requires=["SEND_EMAIL"])
    def send_email(
        to: Annotated[Addresses, "recipient"],
        subject: Annotated[OneLine, "content"],
        body: Annotated[object, "content"] = "",
        attachment_ref: Annotated[object, "content"] = None,
        cc: Annotated[Addresses | None, "recipient"] = None,
    ) -> Json:
        """Send one mail; body and attachment_ref may be a text or any result."""
        mail = Mail(
            to=_addresses(to),
            cc=_addresses(cc),
            subject=subject,
            body=to_text(body),
            attachments=tuple(_attachments(attachment_ref)),
        )
        actions.send(mail)
        return {"sent_to": [*mail.to, *mail.cc]}

    @operation(effect="egress", requires=["GIT_PUSH"], place=WORKSPACE)
    def git_push(remote: Annotated[str, "recipient"], branch: Annotated[str, "authority"]) -> Json:
        """Push what is committed in the workspace as this branch of this remote."""
        return {"commit": actions.push(remote, branch)}

    @operation(
        effect="write",
        requires=["RUN_BLUEPRINT"],
        label_of=lambda _arguments, _result: labels.all_labels,
        place=WORKSPACE,
    )
    def run_blueprint(
        blueprint: Annotated[str, "authority"], intent: Annotated[str, "authority"]
    ) -> Json:
        """Run a blueprint on the repository with this intent; gives its report."""
        return actions.run_blueprint(blueprint, intent)

    @operation(effect="read", requires=["ASK_PERSON"], vouched=True)
    def ask_person(question: Annotated[object, "content"]) -> Json:
        """Ask the person that the plan is for; their own words are trusted."""
        return actions.ask_person(to_text(question))

    return (send_email, git_push, run_blueprint, ask_person)


def ask_person_through(approvals: "Approvals", run_id: str) -> Callable[[str], str]:
    """Return a function that asks a question as an approval and returns the answer, once.

    Raises (when called):
        WaitingForPerson: nobody has answered yet.
        OperationFailed: the person refused to answer.
    """

    def ask(question: str) -> str:
        request = ApprovalRequest(
            action=json_digest({"run": run_id, "op": "ask_person", "question": question}),
            run_id=run_id,
            step=0,
            op="ask_person",
            arguments={"question": question},
            denied=Denied(reason=f"a person is asked: {question}", rule=QUESTION_RULE),
        )
        reply = approvals.ask(request)
        if reply.status == "denied":
            raise OperationFailed(f"the person refused to answer: {reply.reason}")
        if reply.status != "approved" or not approvals.consume(request):
            raise WaitingForPerson(f"approval {reply.approval} waits for an answer to: {question}")
        return approvals.get(reply.approval).reason

    return ask


def to_text(value: object) -> str:
    """Return a string unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return dumps(plain_json(value), ensure_ascii=False, indent=1)


def _attachments(value: object) -> Iterator[Attachment]:
    """Yield a file for each item of a list; a note has the name of its file."""
    if isinstance(value, list):
        for one in value:
            yield from _attachments(one)
    elif isinstance(value, Mapping) and isinstance(value.get("text"), str):
        name = posixpath.basename(str(value.get("file") or "")) or "attachment.txt"
        if name.casefold().endswith(".ics"):  # the text is that of one event
            name = f"{value.get('title') or name}.txt"
        yield Attachment(name=re.sub(r"[^\w. ()-]", "_", name), text=str(value["text"]))
    elif value is not None:
        is_text = isinstance(value, str)
        yield Attachment(
            name="attachment.txt" if is_text else "attachment.json", text=to_text(value)
        )


def _page_label(arguments: Arguments, _result: Json) -> Label:
    return Label(taint=frozenset({f"web:{normalized_address(str(arguments['url']))}"}))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _addresses(argument: str | Sequence[str] | None) -> tuple[str, ...]:
    if argument is None:
        return ()
    return (argument,) if isinstance(argument, str) else tuple(argument)
