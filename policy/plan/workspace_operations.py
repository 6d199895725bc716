"""Operations on the workspace in the sandbox: files, commands, commits, and web pages."""

import posixpath
from collections.abc import Callable, Mapping
from importlib.resources import files
from json import dumps
from typing import Annotated

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
    """Return the operations; `sandbox` opens the sandbox when the first of them runs.

    `env` returns the environment variables of commands, which lead to the egress proxy.
    """

    def run(*argv: str, stdin: bytes = b"", timeout_s: float = COMMAND_TIMEOUT_S) -> ExecResult:
        command = Command(
            argv=argv, env=env(), stdin=stdin, timeout_s=timeout_s, output_limit=OUTPUT_LIMIT
        )
        return sandbox().exec(command)

    def any_file(_: Arguments) -> Label:
        return labels.all_labels

    def one_file(arguments: Arguments) -> Label:
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
    def http_fetch(url: Annotated[str, "recipient"]) -> Json:
        """Get a page by its URL; gives status and text."""
        script = files("policy").joinpath("inside_fetch.py").read_bytes()
        result = run("python3", "-", url, stdin=script, timeout_s=FETCH_TIMEOUT_S)
        if not result.ok:
            raise OperationFailed(f"{url!r} could not be fetched: {result.text[-300:]}")
        status, _, text = _text(result.stdout).partition("\n")
        return {"status": int(status), "text": text}

    return (read_file, search_code, write_file, run_command, git_commit, http_fetch)


def to_text(value: object) -> str:
    """Return a string unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return dumps(plain_json(value), ensure_ascii=False, indent=1)


def _page_label(arguments: Arguments) -> Label:
    return Label(taint=frozenset({f"web:{normalized_address(str(arguments['url']))}"}))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
