"""GitPython on the host: what it runs, what it reads, and what its errors say."""

import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from contracts.errors import GitFailed, Unavailable
from sandbox import git as door
from sandbox.git import (
    OURS,
    USERS,
    Repository,
    RuledGit,
    error_text,
    our_repository,
    users_repository,
)
from tests.support.git_repos import commit_files, make_repo, run_git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "shop")


def read_everything(repository: Repository) -> None:
    """Use what GitPython offers for reading a repository."""
    tip = repository.commit(repository.git.rev_parse("HEAD"))
    assert (tip.hexsha, tip.tree.hexsha) == (
        repository.head.commit.hexsha,
        repository.git.rev_parse("HEAD^{tree}"),
    )
    assert [blob.path for blob in tip.tree.blobs] == ["hello.txt"]
    assert [head.name for head in repository.branches] == ["main"]
    assert repository.merge_base("HEAD", "main") == [tip]
    assert list(repository.iter_commits("HEAD")) == [tip]
    assert tip.stats.total["files"] == 1
    assert not repository.bare
    repository.git.status()
    repository.git.diff("HEAD")


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor={}", "core.sshCommand={}", "core.pager={}", "core.editor={}",
        "core.hooksPath={}/..", "diff.external={}", "core.alternateRefsCommand={}",
    ],
)  # fmt: skip
def test_reading_a_repository_runs_no_command_of_its_configuration(
    repo: Path, tmp_path: Path, setting: str
) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    run_git(repo, "config", *setting.format(evil).split("=", 1))

    with users_repository(repo) as repository:
        read_everything(repository)

    assert not (tmp_path / "ran").exists()


def test_gitpython_reads_no_configuration_and_follows_no_include(
    repo: Path,
) -> None:
    with (repo / ".git/config").open("a") as config:
        config.write('[includeIf "gitdir:/nowhere/"]\n\tpath = /dev/zero\n')
    audited = (
        "import sys; from pathlib import Path; from sandbox.git import users_repository\n"
        "opened = []\n"
        "sys.addaudithook(lambda name, args: name == 'open' and opened.append(str(args[0])))\n"
        f"with users_repository(Path({str(repo)!r})) as repository:\n"
        "    repository.commit('HEAD'); repository.merge_base('HEAD', 'main')\n"
        "    repository.branches; repository.head.commit.tree\n"
        "print([name for name in opened if name.endswith('/config') or '/dev/zero' in name])"
    )
    argv = (sys.executable, "-c", audited)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    assert (done.stdout, done.stderr) == ("[]\n", "")
    with users_repository(repo) as repository, pytest.raises(NotImplementedError):
        repository.config_reader()


def test_a_work_tree_and_objects_elsewhere_are_not_followed(repo: Path, tmp_path: Path) -> None:
    other = make_repo(tmp_path / "other", {"secret": b"secret"})
    secret = run_git(other, "rev-parse", "HEAD")
    run_git(repo, "config", "core.worktree", str(other))

    with users_repository(repo) as repository:
        assert repository.working_dir == str(repo)
        with pytest.raises((GitFailed, ValueError)):
            repository.commit(secret).tree  # noqa: B018  the object is loaded here


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_COMMON_DIR"])
def test_gitpython_does_not_obey_git_variables_of_this_process(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = make_repo(tmp_path / "other", {"z": b"z"})
    monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))

    with users_repository(repo) as repository:
        read_everything(repository)
        assert repository.git_dir == str(repo / ".git")


def test_a_path_is_taken_literally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "elsewhere")
    repo = make_repo(tmp_path / "$SHOP")

    with users_repository(repo) as repository:
        read_everything(repository)


def test_a_linked_worktree_is_read_where_its_objects_are(repo: Path, tmp_path: Path) -> None:
    run_git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    tip = commit_files(tmp_path / "side", {"b": b"b"})

    with users_repository(tmp_path / "side") as repository:
        assert repository.head.commit.hexsha == tip
        assert repository.active_branch.name == "side"


def test_our_git_reads_no_configuration_of_the_user_but_the_users_git_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Grace\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))

    assert RuledGit(tmp_path, USERS).config("user.name") == "Grace"
    with pytest.raises(GitFailed):
        RuledGit(tmp_path, OURS).config("user.name")


@pytest.mark.parametrize("url", ["ext::sh -c touch% ran", "https://127.0.0.1:1/x"])
def test_our_git_speaks_no_protocol_but_files(tmp_path: Path, url: str) -> None:
    run_git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main")

    with our_repository(tmp_path) as repository, pytest.raises(GitFailed, match="not allowed"):
        repository.git.fetch("--", url)


def test_a_command_that_takes_too_long_is_killed(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "TIMEOUT_S", 0.5)
    os.mkfifo(repo / "pipe")
    started = time.monotonic()

    with users_repository(repo) as repository:
        with pytest.raises(GitFailed, match=r"git hash-object did not end within"):
            repository.git.hash_object("pipe")
        with pytest.raises(GitFailed, match="ended early"):
            list(repository.git.stream("hash-object", "pipe"))

    assert time.monotonic() - started < 30


def test_a_long_standard_error_does_not_hold_up_the_output(repo: Path) -> None:
    noise = "alias.noise=!head -c 9000000 /dev/zero >&2; echo done"
    with users_repository(repo) as repository:
        assert b"".join(repository.git(c=noise).stream("noise")) == b"done\n"


def test_only_the_first_bytes_of_an_endless_output_are_read(repo: Path) -> None:
    with users_repository(repo) as repository:
        endless = repository.git(c="alias.endless=!exec yes")
        assert endless.first_bytes(5, "endless") == b"y\ny\ny"


def test_a_missing_git_is_one_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="install it"):
        our_repository(tmp_path)
    argv = (sys.executable, "-c", "import sandbox.git")
    done = subprocess.run(argv, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_text_of_an_endless_error_takes_little_memory() -> None:
    stderr = b"warning: x\n" * 500_000 + b"fatal: no more\n"
    tracemalloc.start()
    try:
        assert error_text(stderr).endswith("; no more")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(stderr)


def test_a_removed_folder_is_not_reported_as_a_missing_git(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match=r"git cannot work in .*gone"):
        our_repository(tmp_path / "gone")
