"""Operations on the workspace in the sandbox: files, commands, commits, and pages from the web."""

import posixpath
from collections.abc import Callable, Mapping
from importlib.resources import files
from json import dumps
from typing import Annotated, NamedTuple

from contracts.entity import Label
from contracts.json import Json
from contracts.sandbox import Command, ExecResult, Sandbox
from policy.authority import normalized_address
from policy.errors import OperationFailed
from policy.file_labels import FileLabels
from policy.plan.registry import Arguments, Operation, operation, plain_json

WORKSPACE = "workspace"
FILE_LIMIT = 1024 * 1024
OUTPUT_LIMIT = 64 * 1024
COMMAND_TIMEOUT_S = 600.0
FETCH_TIMEOUT_S = 60.0


def workspace_operations(
    sandbox: Callable[[], Sandbox], labels: FileLabels, env: Callable[[], Mapping[str, str]]
) -> tuple[Operation, ...]:
    """Operations over the sandbox that `sandbox` opens when the first of them is run.

    `env` are the variables of its commands, which lead to the egress proxy.
    """
    workspace = _Workspace(sandbox, labels, env)

    def any_file(_: Arguments) -> Label:
        return labels.all_labels

    @operation(
        effect="read", requires=["READ_FILE"], label_of=workspace.label_of_file, place=WORKSPACE
    )
    def read_file(path: Annotated[str, "authority"]) -> Json:
        """Give the text of one file of the workspace."""
        return _text(sandbox().read_file(path, FILE_LIMIT))

    @operation(effect="read", requires=["READ_FILE"], label_of=any_file, place=WORKSPACE)
    def search_code(text: Annotated[str, "query"], path: Annotated[str, "authority"] = ".") -> Json:
        """Give the lines that hold this text, as a list of path, line and text; case is ignored."""
        return workspace.search(text, path)

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
        result = workspace.run("sh", "-c", command, stdin=to_text(stdin).encode())
        return {"exit_code": result.exit_code, "output": result.text}

    @operation(effect="write", requires=["GIT_COMMIT"], place=WORKSPACE)
    def git_commit(message: Annotated[str, "content"]) -> Json:
        """Commit everything that changed in the workspace."""
        return {"commit": workspace.commit(message)}

    @operation(effect="egress", requires=["HTTP_FETCH"], label_of=_label_of_page)
    def http_fetch(url: Annotated[str, "recipient"]) -> Json:
        """Get a page by its URL; gives status and text."""
        return workspace.fetch(url)

    return (read_file, search_code, write_file, run_command, git_commit, http_fetch)


class _Workspace(NamedTuple):
    """The workspace as the operations reach it."""

    sandbox: Callable[[], Sandbox]
    labels: FileLabels
    env: Callable[[], Mapping[str, str]]

    def run(
        self, *argv: str, stdin: bytes = b"", timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ExecResult:
        command = Command(
            argv=argv, env=self.env(), stdin=stdin, timeout_s=timeout_s, output_limit=OUTPUT_LIMIT
        )
        return self.sandbox().exec(command)

    def label_of_file(self, arguments: Arguments) -> Label:
        """Of the path as it is written and of where it leads: a link hides nothing."""
        path = str(arguments["path"])
        real = _text(self.run("realpath", "--", path).stdout).strip()
        inside = posixpath.relpath(real, self.sandbox().work_dir) if real else path
        return self.labels.label_for(path).join(self.labels.label_for(inside))

    def search(self, text: str, path: str) -> Json:
        argv = ("grep", "-rnIFis", "--exclude-dir=.git", "-m", "50", "-e", text, "--", path)
        lines = _text(self.run(*argv).stdout).splitlines()[:200]
        found = [line.split(":", 2) for line in lines if line.count(":") >= 2]
        return [{"path": posixpath.normpath(p), "line": n, "text": t} for p, n, t in found]

    def commit(self, message: str) -> str:
        """The id of the new commit."""
        for argv in (("git", "add", "--all"), ("git", "commit", "--quiet", "-m", message)):
            result = self.run(*argv)
            if not result.ok:
                raise OperationFailed(f"{' '.join(argv[:2])} failed: {result.text[-300:]}")
        return self.run("git", "rev-parse", "HEAD").text

    def fetch(self, url: str) -> Json:
        script = files("policy").joinpath("inside_fetch.py").read_bytes()
        result = self.run("python3", "-", url, stdin=script, timeout_s=FETCH_TIMEOUT_S)
        if not result.ok:
            raise OperationFailed(f"{url!r} could not be fetched: {result.text[-300:]}")
        status, _, text = _text(result.stdout).partition("\n")
        return {"status": int(status), "text": text}


def to_text(value: object) -> str:
    """Content as people read it: a text as it is, anything else as JSON."""
    return (
        value if isinstance(value, str) else dumps(plain_json(value), ensure_ascii=False, indent=1)
    )


def _label_of_page(arguments: Arguments) -> Label:
    return Label(taint=frozenset({f"web:{normalized_address(str(arguments['url']))}"}))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
