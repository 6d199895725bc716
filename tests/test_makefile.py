"""What the set-up would do, as `make -n` tells it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def would_do(place: Path) -> str:
    """The commands that bring the environment of this folder up to date."""
    (place / "Makefile").write_text((ROOT / "Makefile").read_text())
    argv = ("make", "-n", ".venv/.synced")
    return subprocess.run(argv, cwd=place, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment that was brought up to date; it can all that is asked."""
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/true")
    (tmp_path / ".venv" / ".synced").touch()
    return python


def test_an_environment_that_is_whole_is_left_alone(python: Path, tmp_path: Path) -> None:
    assert "venv --clear" not in would_do(tmp_path)


@pytest.mark.parametrize("now", ["/nowhere/python3", "/bin/false"])
def test_one_whose_python_is_gone_or_another_is_made_anew(
    python: Path, tmp_path: Path, now: str
) -> None:
    python.unlink()
    python.symlink_to(now)
    assert "venv --clear" in would_do(tmp_path)
    assert "uv pip sync" in would_do(tmp_path)


def test_uv_is_laid_down_by_its_hash(python: Path, tmp_path: Path) -> None:
    pinned = "uv==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    (tmp_path / "requirements.lock").write_text(
        f"a==1 \\\n    --hash=sha256:aa\n{pinned}uvloop==3 \\\n    --hash=sha256:dd\n"
    )
    (tmp_path / ".venv" / ".synced").unlink()
    _, _, cut = would_do(tmp_path).partition("--require-hashes \\\n  -r <(")
    argv = ("bash", "-c", cut.partition(")\n")[0])
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == pinned
