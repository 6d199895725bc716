"""Repositories for tests, made by plain git with no configuration of the machine's."""

import os
import subprocess
from pathlib import Path

_ENV = {
    **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.test",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.test",
    "GIT_CONFIG_COUNT": "1",  # a commit begins no other process that looks for what to tidy up
    "GIT_CONFIG_KEY_0": "maintenance.auto",
    "GIT_CONFIG_VALUE_0": "false",
}


def run_git(at: Path, *args: str) -> str:
    """Return what plain git writes, with none of Harness's rules, as stripped text."""
    return git_output(at, *args).decode("utf-8", "replace").strip()


def git_output(at: Path, *args: str, stdin: bytes = b"") -> bytes:
    """Return the exact bytes that plain git writes."""
    done = subprocess.run(
        ("git", *args), cwd=at, env=_ENV, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout


def make_repo(path: Path, files: dict[str, bytes] | None = None) -> Path:
    """A repository on branch `main` with one commit of these files."""
    path.mkdir(parents=True)
    run_git(path, "init", "--quiet", "--initial-branch=main")
    commit_files(path, files or {"hello.txt": b"hello\n"})
    return path


def commit_files(repo: Path, files: dict[str, bytes], message: str = "Add files") -> str:
    """Write and commit; gives the commit id."""
    for name, content in files.items():
        file = repo / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "--quiet", "--message", message)
    return run_git(repo, "rev-parse", "HEAD")


def every_byte(repo: Path) -> dict[str, bytes]:
    """Every file under the repository, `.git` included, with its bytes."""
    return {
        str(path.relative_to(repo)): path.read_bytes() for path in repo.rglob("*") if path.is_file()
    }
