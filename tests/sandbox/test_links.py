"""The symbolic links of a base, however hostile the repository."""

from pathlib import Path

from sandbox.diffs import symlinks
from sandbox.repos import fetch_base
from tests.support.git_repos import commit_files, git_output, make_repo, run_git


def links_of(repo: Path, tmp_path: Path) -> dict[str, str]:
    base = fetch_base(str(repo), store=tmp_path / "store")
    return symlinks(base, base.commit)


def test_every_link_is_read_with_its_target(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    (repo / "a b").mkdir()
    (repo / "a b" / "l").symlink_to("../tools/husky\nx")
    (repo / ".husky").symlink_to("nowhere")
    (repo / "again").symlink_to("nowhere")
    commit_files(repo, {"x.txt": b"x"})
    found = links_of(repo, tmp_path)
    assert found == {"a b/l": "../tools/husky\nx", ".husky": "nowhere", "again": "nowhere"}


def test_a_repository_without_links_has_none(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    assert links_of(repo, tmp_path) == {}


def test_a_link_longer_than_linux_allows_is_omitted(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    (repo / "big").write_bytes(b"x" * 5_000)
    blob = run_git(repo, "hash-object", "-w", "big")
    run_git(repo, "update-index", "--add", "--cacheinfo", f"120000,{blob},.husky")
    run_git(repo, "commit", "--quiet", "-m", "A link of 5,000 bytes")
    assert links_of(repo, tmp_path) == {}


def test_a_hundred_thousand_links_are_read(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    blob = run_git(repo, "rev-parse", "HEAD:hello.txt")
    rows = "".join(f"120000 {blob}\td/l{n}\n" for n in range(100_000))
    git_output(repo, "update-index", "--index-info", stdin=rows.encode())
    run_git(repo, "commit", "--quiet", "-m", "Many links")
    assert len(links_of(repo, tmp_path)) == 100_000
