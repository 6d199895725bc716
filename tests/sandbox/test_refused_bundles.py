"""Bundles as a hostile agent could make them: the host takes a whole one, and refuses the rest."""

import os
import re
from pathlib import Path

import pytest

from contracts.errors import WorkRefused
from sandbox.repos import BaseCommit
from tests.support.git_repos import commit_files, git_output, run_git
from tests.support.workspace_work import unbundled


@pytest.fixture
def forge(tmp_path: Path, base: BaseCommit) -> Path:
    """A repository on the host in which a test makes what a hostile agent could make."""
    forge = tmp_path / "forge"
    forge.mkdir()
    run_git(forge, "init", "--quiet", "--initial-branch=work")
    run_git(forge, "fetch", "--quiet", str(base.bare), f"{base.ref}:refs/heads/start")
    run_git(forge, "reset", "--quiet", "--hard", "start")
    return forge


def bundled(forge: Path, *revisions: str) -> bytes:
    run_git(forge, "bundle", "create", "--quiet", "out.bundle", *revisions)
    return (forge / "out.bundle").read_bytes()


def refused(bundle: bytes, base: BaseCommit) -> str:
    """Why the host refuses the bundle; the bare repository must hold no branch of it."""
    with pytest.raises(WorkRefused) as error:
        unbundled(bundle, base)
    assert run_git(base.bare, "for-each-ref", "refs/heads") == ""
    return str(error.value)


def test_a_valid_bundle_is_accepted(forge: Path, base: BaseCommit) -> None:
    commit = commit_files(forge, {"f": b"2"})
    assert unbundled(bundled(forge, "start..HEAD", "HEAD"), base) == commit


def test_a_corrupt_bundle_is_refused(forge: Path, base: BaseCommit) -> None:
    commit_files(forge, {"f": os.urandom(4096)})
    good = bundled(forge, "^start", "HEAD")
    flipped = bytearray(good)
    flipped[-2000] ^= 0xFF

    assert "does not verify" in refused(bytes(flipped), base)
    assert "does not verify" in refused(good[:-100], base)
    assert "is not a git bundle" in refused(b"", base)
    assert "is not a git bundle" in refused(good.replace(b"# v2", b"# v3\n@filter=tree:0", 1), base)


def test_a_bundle_of_other_refs_is_refused(forge: Path, base: BaseCommit) -> None:
    commit_files(forge, {"f": b"2"})
    run_git(forge, "branch", "evil")

    assert "must be one HEAD" in refused(bundled(forge, "^start", "evil"), base)
    assert "must be one HEAD" in refused(bundled(forge, "^start", "HEAD", "evil"), base)


def test_a_bundle_with_objects_missing_is_refused(forge: Path, base: BaseCommit) -> None:
    first = commit_files(forge, {"f": b"2"})
    commit_files(forge, {"f": b"3"})

    assert "does not verify" in refused(bundled(forge, f"^{first}", "HEAD"), base)


def test_a_head_that_is_no_commit_is_refused(forge: Path, base: BaseCommit) -> None:
    bundle = bundled(forge, "^start", "HEAD") if commit_files(forge, {"f": b"2"}) else b""
    head = run_git(forge, "rev-parse", "HEAD").encode()
    tree = run_git(forge, "rev-parse", "HEAD^{tree}").encode()

    assert "does not verify" in refused(bundle.replace(head + b" HEAD", tree + b" HEAD"), base)


@pytest.mark.parametrize(
    ("mode", "name", "content", "says"),
    [
        ("100644", ".git/hooks/post-checkout", b"#!/bin/sh\n", "hasDotgit"),
        ("100644", ".gitmodules", b'[submodule "x"]\n\tpath = x\n\turl = -u./evil\n', "Url"),
        ("100644", ".gitmodules", b'[submodule "../../x"]\n\tpath = x\n\turl = x\n', "Name"),
        ("120000", ".gitmodules", b"hello.txt", "gitmodulesSymlink"),
        ("100644", "../escape", b"x", "DotDot|fullPathname"),
    ],
)
def test_trees_that_trick_a_checkout_are_refused(
    forge: Path, base: BaseCommit, mode: str, name: str, content: bytes, says: str
) -> None:
    commit = crafted(forge, mode, name, content)
    run_git(forge, "update-ref", "HEAD", commit)

    assert re.search(says, refused(bundled(forge, "^start", "HEAD"), base), re.I)


def crafted(forge: Path, mode: str, name: str, content: bytes) -> str:
    """A commit of one file with a name and mode that git itself would not write."""
    sha = git_output(forge, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
    kind = "blob"
    for part in reversed(name.split("/")):
        entry = f"{mode} {part}\0".encode() + bytes.fromhex(sha)
        sha = (
            git_output(
                forge, "hash-object", "-w", "--literally", "-t", "tree", "--stdin", stdin=entry
            )
            .decode()
            .strip()
        )
        mode, kind = "40000", "tree"
    assert kind == "tree"
    return run_git(forge, "commit-tree", "-p", "start", "-m", "Crafted", sha)
