"""Bundles that lie, as bytes from a supervisor nobody trusts; see also test_workspace.py."""

import hashlib
import struct
import zlib
from pathlib import Path

import pytest

from contracts.errors import WorkRefused
from sandbox.repos import BaseCommit, fetch_base
from tests.support.git_repos import commit_files, every_byte, make_repo, run_git
from tests.support.workspace_work import unbundled

COMMIT, TREE, BLOB, REF_DELTA = 1, 2, 3, 7


@pytest.fixture
def base(tmp_path: Path) -> BaseCommit:
    return fetch_base(str(make_repo(tmp_path / "shop")), store=tmp_path / "store")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "file").write_text("untouched")
    return canary


def entry(kind: int, data: bytes, *, claim: int | None = None, before: bytes = b"") -> bytes:
    """One object of a pack, which may claim another size than it has."""
    size = len(data) if claim is None else claim
    first, size = kind << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    return bytes(header) + bytes([first]) + before + zlib.compress(data)


def pack(*entries: bytes, claim: int | None = None) -> bytes:
    count = len(entries) if claim is None else claim
    body = b"PACK" + struct.pack(">II", 2, count) + b"".join(entries)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def bundle(head: str, packed: bytes, *, refs: tuple[str, ...] | None = None) -> bytes:
    lines = (f"{head} HEAD",) if refs is None else refs
    return "\n".join(("# v2 git bundle", *lines, "", "")).encode() + packed


def named(kind: str, data: bytes) -> str:
    """The id git gives to an object."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def commit_of(tree: str, parent: str) -> bytes:
    who = "A <a@example.test> 1 +0000"
    lines = (f"tree {tree}", f"parent {parent}", f"author {who}", f"committer {who}", "", "x\n")
    return "\n".join(lines).encode()


def refused(data: bytes, base: BaseCommit) -> str:
    with pytest.raises(WorkRefused) as error:
        unbundled(data, base)
    assert run_git(base.bare, "for-each-ref", "refs/heads") == ""
    assert str(error.value).isprintable()
    return str(error.value)


def test_a_well_formed_crafted_bundle_is_accepted(base: BaseCommit) -> None:
    blob = b"hello"
    tree = b"100644 f\0" + bytes.fromhex(named("blob", blob))
    commit = commit_of(named("tree", tree), base.commit)
    packed = pack(entry(BLOB, blob), entry(TREE, tree), entry(COMMIT, commit))
    head = named("commit", commit)
    assert unbundled(bundle(head, packed), base) == head


@pytest.mark.parametrize(
    "ref",
    [
        "--upload-pack=touch {canary}/ran",
        "refs/heads/--upload-pack=touch {canary}/ran",
        "-u./evil",
        "HEAD --upload-pack=evil",
        "HEAD\0",
        "../../../{canary}/file",
        "refs/heads/main",
        "\x1b[2JHEAD",
    ],
)
def test_a_ref_that_is_not_head_is_refused(base: BaseCommit, canary: Path, ref: str) -> None:
    line = f"{base.commit} {ref.format(canary=canary)}"
    refused(bundle("", pack(), refs=(line,)), base)
    refused(bundle("", pack(), refs=(f"-{'0' * 40} {ref.format(canary=canary)}", line)), base)
    assert every_byte(canary) == {"file": b"untouched"}


@pytest.mark.parametrize(
    "head", ["--upload-pack=touch", "0" * 40, "f" * 40, "HEAD", "g" * 40, "0" * 64, ""]
)
def test_a_head_that_is_not_in_the_pack_is_refused(base: BaseCommit, head: str) -> None:
    refused(bundle(head, pack()), base)


def test_prerequisites_named_as_options_are_never_given_to_git(
    base: BaseCommit, canary: Path
) -> None:
    evil = f"---upload-pack=touch {canary}/ran"
    refused(bundle("", pack(), refs=(evil, f"{'1' * 40} HEAD")), base)
    assert every_byte(canary) == {"file": b"untouched"}


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"PACK",
        pack(claim=0xFFFFFFFF),
        pack(entry(BLOB, b"x"), claim=1_000_000),
        pack(entry(BLOB, b"tiny", claim=1 << 40)),
        pack(entry(BLOB, b"x" * 1000, claim=10)),
        pack(entry(REF_DELTA, b"\xff" * 9 + b"\x7f" + b"\xff" * 9 + b"\x7f", before=b"\1" * 20)),
        pack(entry(5, b"no such kind")),
        pack(entry(BLOB, b"x"))[:-20] + b"\0" * 20,
        pack(entry(COMMIT, b"tree none")),
        b"PACK" + struct.pack(">II", 99, 0),
    ],
    ids=[
        "nothing", "only a word", "four thousand million objects", "a million objects",
        "a terabyte in four bytes", "more than it says", "a delta of any size",
        "an unknown kind", "a false checksum", "a broken commit", "another version",
    ],
)  # fmt: skip
def test_a_pack_with_false_contents_is_refused(base: BaseCommit, packed: bytes) -> None:
    refused(bundle("1" * 40, packed), base)


def test_a_header_without_end_is_refused(base: BaseCommit) -> None:
    line = f"{'1' * 40} refs/heads/x\n".encode()
    refused(b"# v2 git bundle\n" + line * 1_000_000, base)
    refused(b"# v2 git bundle\n" + b"x" * 50_000_000, base)


def test_a_history_that_is_not_ours_does_not_bring_the_hosts_objects_along(
    tmp_path: Path, base: BaseCommit
) -> None:
    other = make_repo(tmp_path / "other", {"private": b"of the host"})
    private = run_git(other, "rev-parse", "HEAD")
    refused(bundle(private, pack()), base)
    tree = run_git(other, "rev-parse", "HEAD^{tree}")
    commit = commit_of(tree, base.commit)
    refused(bundle(named("commit", commit), pack(entry(COMMIT, commit))), base)


@pytest.mark.parametrize("leaf", ["a file", "an empty directory"])
def test_few_trees_that_are_endless_paths_are_refused(base: BaseCommit, leaf: str) -> None:
    kind, data, mode = (BLOB, b"x", b"100644") if leaf == "a file" else (TREE, b"", b"40000")
    below, objects = named("blob" if kind == BLOB else "tree", data), [entry(kind, data)]
    for _ in range(30):
        tree = b"".join(b"%s %d\0" % (mode, n) + bytes.fromhex(below) for n in range(10))
        below, mode = named("tree", tree), b"40000"
        objects.append(entry(TREE, tree))
    commit = commit_of(below, base.commit)
    bomb = bundle(named("commit", commit), pack(*objects, entry(COMMIT, commit)))
    assert "files and directories" in refused(bomb, base)


def test_work_on_a_base_of_many_files_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.bundles.NEW_PATHS", 3)
    shop = make_repo(tmp_path / "large", {f"d{n}/f": b"" for n in range(4)})
    base = fetch_base(str(shop), store=tmp_path / "store")
    commit = commit_files(shop, {"three/more/paths": b"2"})
    run_git(shop, "bundle", "create", "--quiet", "../work", f"^{base.commit}", "HEAD")
    assert unbundled((tmp_path / "work").read_bytes(), base) == commit


def test_a_refused_bundle_does_not_block_the_next(tmp_path: Path, base: BaseCommit) -> None:
    refused(bundle("1" * 40, pack(entry(BLOB, b"x"))), base)
    shop = tmp_path / "shop"
    commit = commit_files(shop, {"f": b"2"})
    run_git(shop, "bundle", "create", "--quiet", "good", f"^{base.commit}", "HEAD")
    assert unbundled((shop / "good").read_bytes(), base) == commit
