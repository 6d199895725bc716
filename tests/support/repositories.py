"""Small git repositories, and looks at them."""

import hashlib
import subprocess
from pathlib import Path


def make_repository(place: Path) -> Path:
    """One commit with one file whose only line is wrong."""
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    (place / "answer.txt").write_text("41\n")
    git(place, "add", "--all")
    commit(place, "Ask")
    return place


def git(place: Path, *args: str) -> str:
    """What git prints in this repository."""
    done = subprocess.run(
        ["git", *args], cwd=place, check=True, capture_output=True, text=True, errors="replace"
    )
    return done.stdout.strip()


def commit(place: Path, message: str) -> None:
    """Commit what is staged."""
    who = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    git(place, *who, "commit", "--quiet", "--message", message)


def fingerprint(place: Path) -> dict[str, str]:
    """Every file below, `.git` included, without what a run adds: objects, a branch, its log."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not _added(path.relative_to(place).as_posix())
    }


def _added(path: str) -> bool:
    return path.startswith(
        (".git/objects/", ".git/refs/heads/harness/", ".git/logs/refs/heads/harness/")
    )
