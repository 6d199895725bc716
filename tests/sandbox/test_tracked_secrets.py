"""Files of a commit that look like secrets."""

from pathlib import Path

import pytest

from sandbox.repos import fetch_base
from sandbox.tracked_secrets import tracked_secrets
from tests.support.git_repos import commit_files, make_repo, run_git

KEY = b"-----BEGIN OPENSSH " + b"PRIVATE KEY-----\nabc\n"
NAMES = (".env", ".npmrc", "secrets.py", "id_rsa", ".netrc", "credentials.json")


def found(repo: Path, tmp_path: Path, *, history: bool = False) -> tuple[str, ...]:
    base = fetch_base(str(repo), store=tmp_path / "store")
    return tracked_secrets(base, lambda path: path.rsplit("/")[-1] in NAMES, history=history)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("deploy/notes.md", KEY),
        ("a b/x.py", b"KEY = 'AKI" + b"AIOSFODNN7EXAMPLE'\n"),
        ("ci.txt", b"ghp" + b"_" + b"a" * 36),
        ("\xe9.txt".encode().decode(), b"glpat" + b"-" + b"x" * 20),
        ("app/.env", b"PASSWORD=hunter22\n"),
        (".env", b"export DATABASE_URL='postgres://u:p@h/d'\n"),
        (".npmrc", b"//registry.example.org/:_auth" + b"Token=abcdef\n"),
        (".netrc", b"machine h login me password hunter22\n"),
        ("credentials.json", b'{"client_secret": "abcdefgh"}'),
    ],
)
def test_a_file_that_looks_like_a_secret_is_found(
    tmp_path: Path, path: str, content: bytes
) -> None:
    repo = make_repo(tmp_path / "repo")
    commit_files(repo, {path: content})
    assert found(repo, tmp_path) == (path,)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".npmrc", b"save-exact=true\n"),
        (".npmrc", b"//registry.example.org/:_auth" + b"Token=${NPM_TOKEN}\n"),
        (".env", b"# nothing\nEMPTY=\nFROM=$OTHER\n"),
        ("secrets.py", b"import os\n\ndef read() -> str:\n    return os.environ['KEY']\n"),
        ("id_rsa", b"ssh-rsa AAAA me\n"),
        ("README.md", b"Set PASSWORD=hunter22 and begin with ghp_ as told.\n"),
        ("cert.pem", b"-----BEGIN CERTIFICATE-----\nabc\n"),
    ],
)
def test_a_file_without_a_value_or_with_an_ordinary_name_is_not_found(
    tmp_path: Path, path: str, content: bytes
) -> None:
    repo = make_repo(tmp_path / "repo")
    commit_files(repo, {path: content})
    assert found(repo, tmp_path) == ()


def test_a_secret_that_was_removed_is_found_in_the_history(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    commit_files(repo, {"a/.env": b"TOKEN=abcdefgh\n"})
    run_git(repo, "rm", "--quiet", "a/.env")
    run_git(repo, "commit", "--quiet", "-m", "Remove it")
    assert found(repo, tmp_path) == ()
    assert found(repo, tmp_path, history=True) == ("a/.env",)
