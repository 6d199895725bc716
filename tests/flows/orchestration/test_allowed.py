"""Which blueprints the deployment `run-blueprint` may load."""

from pathlib import Path

import pytest

from blueprints.markdown import first_blueprint
from contracts.errors import BlueprintNotFound
from flows.deployed import find_allowed_blueprint

TIDY = """
from blueprints.dsl import blueprint, deterministic
from nodes.commands import command

tidy = blueprint("tidy", "Tidies", [deterministic("do", "do it", command("true"))])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "tidy.py").write_text(TIDY)
    return tmp_path


def test_an_installed_blueprint_needs_no_leave() -> None:
    assert find_allowed_blueprint("review", (), repo="https://example.org/x").name == "review"


@pytest.mark.parametrize("pattern", ["{}/good/*.py:*", "{}/good/tidy.py:tidy"])
def test_a_file_that_a_pattern_names_is_loaded(folder: Path, pattern: str) -> None:
    ref = f"{folder}/good/tidy.py:tidy"
    assert find_allowed_blueprint(ref, (pattern.format(folder),), repo="elsewhere").name == "tidy"


@pytest.mark.parametrize("pattern", ["{}/good/*.md", "{}/good/tidy.md"])
def test_a_markdown_file_that_a_pattern_names_is_loaded(folder: Path, pattern: str) -> None:
    (folder / "good" / "tidy.md").write_text(first_blueprint(Path("tidy.md")))
    ref = f"{folder}/good/tidy.md"
    assert find_allowed_blueprint(ref, (pattern.format(folder),), repo="elsewhere").name == "tidy"


@pytest.mark.parametrize(
    ("ref", "pattern"),
    [
        ("{}/good/tidy.py:tidy", "{}/other/*.py:*"),
        ("{}/good/tidy.py:tidy", "{}/good/*.py:other"),
        ("{}/good/../other/tidy.py:tidy", "{}/good/*.py:*"),
        ("{}/good/../other/tidy.py:tidy", "{}/good/../*/tidy.py:*"),
        ("{}/good/link.py:tidy", "{}/good/*.py:*"),
        ("{}/good/tidy.py:tidy", "*.py:*"),
        ("{}/good/tidy.md", "{}/good/*.py:*"),
        ("{}/good/tidy.md", "{}/other/*.md"),
        ("{}/good/../other/tidy.md", "{}/good/*.md"),
        ("{}/good/tidy.md", "*.md"),
        ("os:path", ""),
        ("blueprints.library.review:review", "blueprints.library.implement:*"),
    ],
)
def test_what_no_pattern_names_is_refused(folder: Path, ref: str, pattern: str) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "tidy.py").write_text(TIDY)
    (folder / "good" / "link.py").symlink_to(folder / "other" / "tidy.py")
    with pytest.raises(BlueprintNotFound, match="this deployment may not load"):
        find_allowed_blueprint(ref.format(folder), (pattern.format(folder),), repo="elsewhere")
