"""One commit of the user's repository, copied; the repository itself untouched."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from contracts.errors import RepoInvalid
from contracts.sandbox import Sandbox
from sandbox.redaction import redact_url
from sandbox.repos import fetch_base
from sandbox.workspace import clone_into_sandbox
from tests.support.git_repos import commit_files, every_byte, git_output, make_repo, run_git


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_the_wanted_commit_and_its_history_are_in_a_bare_repository(
    tmp_path: Path, store: Path
) -> None:
    repo = make_repo(tmp_path / "shop")
    commit = commit_files(repo, {"b.txt": b"b"})

    base = fetch_base(str(repo), store=store)

    assert (base.name, base.commit, base.ref_name, base.path) == ("shop", commit, "main", repo)
    assert base.notices == ()
    assert run_git(base.bare, "rev-list", "--count", base.ref) == "2"


def test_opening_leaves_the_repository_as_it_was(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    (repo / "hello.txt").write_text("not committed")
    os.utime(repo / "hello.txt", (1, 1))
    before = every_byte(repo)

    fetch_base(str(repo), store=store)

    assert every_byte(repo) == before


@pytest.mark.parametrize("ref", ["v1", "work", "HEAD~1", "main~1", "refs/tags/v1"])
def test_a_ref_is_whatever_git_takes_for_a_commit(tmp_path: Path, store: Path, ref: str) -> None:
    repo = make_repo(tmp_path / "shop")
    first = run_git(repo, "rev-parse", "HEAD")
    run_git(repo, "branch", "work")
    run_git(repo, "tag", "-a", "-m", "one", "v1")
    commit_files(repo, {"b.txt": b"b"})

    assert fetch_base(str(repo), ref, store=store).commit == first
    assert fetch_base(str(repo), first[:8], store=store).commit == first


def test_a_bare_repository_is_a_repository(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(repo), "shop.git")

    base = fetch_base(str(tmp_path / "shop.git"), store=store)

    assert (base.name, base.notices) == ("shop", ())


def test_a_linked_worktree_is_a_repository(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    run_git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))

    assert fetch_base(str(tmp_path / "side"), store=store).ref_name == "side"


def test_a_url_is_cloned_and_its_refs_are_found(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    commit = run_git(repo, "rev-parse", "HEAD")
    run_git(repo, "tag", "-a", "-m", "one", "v1")
    url = f"file://{repo}"

    for ref in (None, "main", "v1", commit):
        base = fetch_base(url, ref, store=store)
        assert (base.commit, base.path, base.source) == (commit, None, url)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_merge_base_with_the_compared_commit_is_found(
    tmp_path: Path, store: Path, scheme: str
) -> None:
    repo = make_repo(tmp_path / "shop")
    first = run_git(repo, "rev-parse", "HEAD")
    run_git(repo, "tag", "-a", "-m", "one", "v1")
    left = commit_files(repo, {"a": b"a"})
    run_git(repo, "checkout", "--quiet", "-b", "feature")
    top = commit_files(repo, {"b": b"b"})
    run_git(repo, "checkout", "--quiet", "main")
    newest = commit_files(repo, {"c": b"c"})

    def forked_at(main: str | None = None, ref: str | None = "feature") -> str | None:
        return fetch_base(f"{scheme}{repo}", ref, main, store=store).forked_at

    assert [forked_at(main) for main in (None, "main", newest)] == [left] * 3
    assert (forked_at("v1"), forked_at("feature"), forked_at(first)) == (first, top, first)
    assert forked_at(ref=None) == newest
    for main in ("nope", "-h", ""):
        with pytest.raises(RepoInvalid, match=r"no branch, tag or|is not a ref"):
            forked_at(main)
    run_git(repo, "checkout", "--quiet", "--orphan", "alone")
    commit_files(repo, {"d": b"d"})
    with pytest.raises(RepoInvalid, match="'alone' has no commit in common with 'feature'"):
        forked_at("alone")


@pytest.mark.parametrize(
    ("repo", "ref", "says"),
    [
        ("nowhere", None, "there is no such directory"),
        ("plain", None, "is not a git repository"),
        ("empty", None, "has no commits yet"),
        ("shop", "nope", "no branch, tag or commit 'nope' in .*known branches: main"),
        ("shop", "main:hello.txt", "no branch, tag or commit"),
        ("shop", "--upload-pack=touch hacked", "is not a ref"),
        ("shop", "", "is not a ref"),
        ("shop", "^HEAD", r"'\^HEAD' is not one commit"),
        ("damaged", None, "git cannot read the commit of HEAD"),
        ("", None, "no repository at ''"),
        ("shop/src", None, "give its top directory, '.*/shop'"),
        ("ext::sh -c touch% hacked", None, "is not a URL Harness clones"),
        ("ftp://example.test/x", None, "is not a URL Harness clones"),
    ],
)
def test_an_unusable_repository_or_ref_is_refused_in_one_line(
    tmp_path: Path, store: Path, repo: str, ref: str | None, says: str
) -> None:
    make_repo(tmp_path / "shop", {"src/a.py": b"", "hello.txt": b""})
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    run_git(tmp_path / "empty", "init", "--quiet")
    rmtree(make_repo(tmp_path / "damaged") / ".git" / "objects" / "pack", ignore_errors=True)
    for name in (tmp_path / "damaged" / ".git" / "objects").glob("??"):
        rmtree(name)
    given = repo if ":" in repo or not repo else str(tmp_path / repo)

    with pytest.raises(RepoInvalid, match=says) as refused:
        fetch_base(given, ref, store=store)

    assert "\n" not in str(refused.value)
    assert not list(tmp_path.rglob("hacked"))


@pytest.mark.parametrize(
    ("url", "ref", "says"),
    [
        ("file:///nowhere/at/all", None, "cannot read 'file:///nowhere/at/all'"),
        ("file://{}/empty", None, "has no commits yet"),
        ("file://{}/shop", "nope", "no branch, tag or full commit id 'nope'"),
        ("file://{}/shop", "0" * 40, "cannot copy 0000000"),
        ("https://me:secret@127.0.0.1:1/x.git", None, r"cannot read 'https://\*\*\*@127.0.0.1:1"),
    ],
)
def test_a_url_that_cannot_be_opened_is_refused_with_one_line(
    tmp_path: Path, store: Path, url: str, ref: str | None, says: str
) -> None:
    make_repo(tmp_path / "shop")
    (tmp_path / "empty").mkdir()
    run_git(tmp_path / "empty", "init", "--quiet")

    with pytest.raises(RepoInvalid, match=says) as refused:
        fetch_base(url.format(tmp_path), ref, store=store)

    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_dirty_tree_is_a_notice_not_an_error(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop", {"a": b"a", "b": b"b"})
    (repo / "a").write_bytes(b"changed")
    (repo / "b").unlink()
    (repo / "c").write_bytes(b"new")

    base = fetch_base(str(repo), store=store)

    assert base.notices == (
        "3 files are changed and not committed: "
        f"the run starts from HEAD ({base.commit[:7]}) and does not see them",
    )


def test_a_detached_head_is_a_notice(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    run_git(repo, "checkout", "--quiet", "--detach")

    base = fetch_base(str(repo), store=store)

    assert base.ref_name is None
    assert base.notices == (
        f"HEAD is detached: the run starts from {base.commit[:7]}, which is on no branch",
    )


def test_a_shallow_clone_whose_origin_is_gone_is_a_notice(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    commit_files(repo, {"b": b"b"})
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "thin")
    repo.rename(tmp_path / "elsewhere")

    base = fetch_base(str(tmp_path / "thin"), store=store)

    assert base.notices == (
        "the source is a shallow clone: the run does not see its whole history",
    )


def test_a_shallow_clone_gets_its_history_from_its_origin_and_stays_shallow(
    tmp_path: Path, store: Path
) -> None:
    repo = make_repo(tmp_path / "shop")
    commit_files(repo, {"b": b"b"})
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "thin")
    commit_files(tmp_path / "thin", {"c": b"c"})

    base = fetch_base(str(tmp_path / "thin"), store=store)

    assert base.notices == ()
    assert run_git(base.bare, "rev-list", "--count", base.commit) == "3"
    assert run_git(tmp_path / "thin", "rev-list", "--count", "HEAD") == "2"


def test_a_sparse_checkout_is_seen_whole(tmp_path: Path, store: Path, sandbox: Sandbox) -> None:
    repo = make_repo(tmp_path / "shop", {"a/x": b"x", "b/y": b"y"})
    run_git(repo, "sparse-checkout", "set", "a")
    base = fetch_base(str(repo), store=store)
    clone_into_sandbox(sandbox, base, "harness/r1/sparse")
    assert sandbox.read_file("b/y") == b"y"


def test_a_tag_is_a_ref(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    run_git(repo, "tag", "--annotate", "--message=One", "v1")
    tagged = run_git(repo, "rev-parse", "v1^{commit}")
    commit_files(repo, {"b": b"b"})
    assert fetch_base(str(repo), "v1", store=store).commit == tagged


def test_odd_names_and_large_files_survive_byte_for_byte(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "odd one", {"a b": b"1", "line\nbreak": b"2", "-x": b"3"})
    Path(os.fsdecode(bytes(repo) + b"/caf\xe9")).write_bytes(b"4")
    (repo / "large").write_bytes(os.urandom(20 << 20) + bytes(80 << 20))
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "--quiet", "--message", "Odd")

    base = fetch_base(str(repo), store=store)

    tree = git_output(base.bare, "ls-tree", "-r", "-z", "--name-only", base.commit)
    assert tree.split(b"\0")[:-1] == [b"-x", b"a b", b"caf\xe9", b"large", b"line\nbreak"]
    assert (
        git_output(base.bare, "cat-file", "blob", f"{base.commit}:large")
        == (repo / "large").read_bytes()
    )


def test_many_runs_may_open_one_source_at_once(tmp_path: Path, store: Path) -> None:
    repo = make_repo(tmp_path / "shop")

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: fetch_base(str(repo), store=store), range(16)))

    assert len(set(opened)) == 1


def test_two_sources_of_one_name_do_not_share_a_bare_repository(
    tmp_path: Path, store: Path
) -> None:
    one = fetch_base(str(make_repo(tmp_path / "a" / "shop")), store=store)
    two = fetch_base(str(make_repo(tmp_path / "b" / "shop")), store=store)

    assert one.bare != two.bare


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file of another user")
def test_a_repository_of_another_user_gives_the_command_that_trusts_it(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    repo = make_repo(tmp_path / "shop")
    for path in (repo, repo / ".git"):
        os.chown(path, 1000, 1000)

    with pytest.raises(RepoInvalid, match=r"git config --global --add safe\.directory"):
        fetch_base(str(repo), store=store)

    trusting = tmp_path / "gitconfig"
    trusting.write_text(f"[safe]\n\tdirectory = {repo}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(trusting))
    assert fetch_base(str(repo), store=store).ref_name == "main"


def test_a_git_of_the_caller_does_not_lead_ours_astray(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "shop")
    other = make_repo(tmp_path / "other", {"z": b"z"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    assert fetch_base(str(repo), store=store).commit == run_git(repo, "rev-parse", "HEAD")


def test_credentials_never_show(tmp_path: Path, store: Path) -> None:
    assert redact_url("to https://me:pa@ss@host/x and ssh://git@host") == (
        "to https://***@host/x and ssh://***@host"
    )
