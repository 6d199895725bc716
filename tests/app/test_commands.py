"""Commands that look at things."""

import json
import re
from pathlib import Path

import pytest

from flows.runs.request import ResolvedRequest
from tests.support.app import Harness

ROOT = Path(__file__).parents[2]
BUILT_IN = (
    *("ci-doctor", "fix-tests", "implement", "release-notes", "review", "triage"),
    *("update-docs", "upgrade-deps"),
)


def test_help_names_every_command(started: Harness) -> None:
    said = started("--help").stdout
    for command in ("run", "runs", "blueprints", "sandbox", "up", "down", "doctor", "demo"):
        assert f" {command} " in said


def test_the_built_in_blueprints_are_listed(asked: Harness) -> None:
    listed = json.loads(asked("blueprints", "list", "--json").stdout)
    assert set(BUILT_IN) <= {entry["name"] for entry in listed}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_blueprint_passes_its_check(asked: Harness, name: str) -> None:
    done = asked("blueprints", "check", name, "--intent", "make it faster")
    assert done.returncode == 0
    assert "make it faster" in done.stdout
    assert "nothing was executed" in done.stdout


def test_a_prompt_that_cannot_be_made_fails_the_check(asked: Harness, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from blueprints.dsl import agentic, blueprint\n"
        "broken = blueprint('broken', 'x', [\n"
        "    agentic('ask', 'ask', prompt=lambda ctx: ctx.results['gone'].output)])\n"
    )
    done = asked("blueprints", "check", "broken.py:broken")
    assert done.returncode == 2
    assert "the prompt of node 'ask' fails: KeyError: 'gone'" in done.stderr


def test_a_new_blueprint_in_markdown_passes_its_check(asked: Harness, tmp_path: Path) -> None:
    assert asked("blueprints", "new", "spelling.md").returncode == 0
    assert "ok: 5 nodes" in asked("blueprints", "check", "spelling.md").stdout
    assert "--set folder=" in asked("blueprints", "show", "spelling.md").stdout


def test_the_check_says_which_prompt_needs_options(asked: Harness, tmp_path: Path) -> None:
    settings = "name: a\ndescription: b\noptions: {level: how}\nnodes:\n  - name: work\n"
    (tmp_path / "a.md").write_text(f"---\n{settings}---\n{{{{ options.level }}}}\n")
    said = asked("blueprints", "check", "a.md").stdout
    assert "  only with --set: a.md:8: 'dict object' has no attribute 'level'" in said


def test_the_tutorial_shows_the_nodes_and_the_error_of_the_new_blueprint(
    asked: Harness, tmp_path: Path
) -> None:
    page = (ROOT / "docs/tutorial/markdown-blueprint.md").read_text()
    asked("blueprints", "new", "spelling.md")
    written = (tmp_path / "spelling.md").read_text()
    without_description = re.sub(r"    description: .*\n", "", written)
    assert page.partition("```yaml\n")[2].partition("```")[0] in without_description
    (tmp_path / "spelling.md").write_text(written.replace("    run:", "    rnu:"))
    error = asked("blueprints", "check", "spelling.md").stderr
    shown = re.search(r"^error: .* known: name, ", page, re.MULTILINE)
    assert shown
    assert error.startswith(shown[0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.md", "'mine.md' cannot be written: "),
        ("mine.txt", "must end in .md"),
        ("My Own.md", "My Own.md:3:7: blueprint 'My Own' has a name that is not usable"),
        ("gone/mine.md", "'gone/mine.md' cannot be written: "),
    ],
)
def test_a_blueprint_is_written_to_a_new_markdown_file_only(
    asked: Harness, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "mine.md").write_text("mine")
    done = asked("blueprints", "new", name)
    assert done.returncode == 2
    assert said in done.stderr
    assert [file.name for file in tmp_path.glob("*.md")] == ["mine.md"]
    assert (tmp_path / "mine.md").read_text() == "mine"


def test_without_runs_the_list_says_what_to_do(asked: Harness) -> None:
    assert "harness demo" in asked("runs", "list").stdout


def test_without_runs_the_json_list_is_empty(asked: Harness) -> None:
    assert json.loads(asked("runs", "list", "--json").stdout) == []


@pytest.mark.docker
def test_doctor_finds_everything_but_a_key(started: Harness) -> None:
    done = started("doctor", "--json")
    missing = {finding["what"] for finding in json.loads(done.stdout) if not finding["ok"]}
    assert (done.returncode, missing) == (3, {"model"})


@pytest.mark.docker
def test_doctor_is_content_when_nothing_is_missing(harness: Harness) -> None:
    assert harness("doctor", env={"ANTHROPIC_API_KEY": "a-key-of-some-kind"}).returncode == 0


def test_a_run_of_the_current_folder_knows_the_folders_path(
    asked: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked_for: list[str] = []

    def note(request: ResolvedRequest, *_: object, **__: object) -> None:
        asked_for.append(request.repo)

    monkeypatch.setattr("app.cli.run.run_request", note)
    asked("run", "fix-tests")
    assert asked_for == [str(tmp_path)]
