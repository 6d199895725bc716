"""A workspace on this machine for tests of nodes and blueprints."""

from collections.abc import Mapping
from pathlib import Path

from contracts.run import NodeResult, RunContext
from nodes.types import NodeFunction
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import commit_files, run_git


def context(
    sandbox: ScriptedSandbox,
    *,
    intent: str = "",
    options: Mapping[str, str] | None = None,
    results: Mapping[str, NodeResult] | None = None,
    env: Mapping[str, str] | None = None,
) -> RunContext:
    """The context of a run in this sandbox."""
    return RunContext(
        run_id="r-1",
        work_dir=sandbox.work_dir,
        intent=intent,
        options=options or {},
        results=results or {},
        env=env or {},
    )


def folder(sandbox: ScriptedSandbox) -> Path:
    """Where the sandbox's workspace lies on this machine."""
    return Path(sandbox.work_dir)


def write(sandbox: ScriptedSandbox, files: Mapping[str, str]) -> None:
    """Put files of text into the workspace."""
    sandbox.upload_files({name: text.encode() for name, text in files.items()})


def put_repo(sandbox: ScriptedSandbox, files: Mapping[str, str] | None = None) -> Path:
    """Make the workspace a repository, as a run finds it: clean, with one commit."""
    place = folder(sandbox)
    run_git(place, "init", "--quiet", "--initial-branch=main")
    write(sandbox, {".git/info/exclude": "__pycache__/\n.pytest_cache/\n"})
    texts = files or {"hello.txt": "hello\n"}
    commit_files(place, {name: text.encode() for name, text in texts.items()})
    return place


def do(
    work: NodeFunction, sandbox: ScriptedSandbox, files: Mapping[str, str], **options: str
) -> NodeResult:
    """What a node's work gives once these files are there."""
    write(sandbox, files)
    return work(context(sandbox, options=options), sandbox)
