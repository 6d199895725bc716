"""Which rule files of a repository agents are given, and how."""

from collections.abc import Mapping

import pytest

from nodes.agents.rule_files import MAX_WHOLE, Rules, find_rules
from nodes.projects.types import ProjectFiles


def rules_of(files: Mapping[str, str]) -> Rules:
    return find_rules(ProjectFiles(frozenset(files), lambda path: files[path].encode()))


def test_a_repository_without_rules_adds_nothing() -> None:
    assert rules_of({"README.md": "read me", "src/app.py": "x = 1"}) == Rules()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("AGENTS.md", "Run `make lint`."),
        ("CLAUDE.md", "Run `make lint`."),
        (".github/copilot-instructions.md", "Run `make lint`."),
        (".cursor/rules/all.mdc", "---\nalwaysApply: true\n---\nRun `make lint`."),
        (".github/instructions/a.instructions.md", "---\napplyTo: '**'\n---\nRun `make lint`."),
        (".github/instructions/a.instructions.md", "---\napplyTo: **\n---\nRun `make lint`."),
    ],
)
def test_rules_for_the_whole_repository_are_shown_whole(path: str, text: str) -> None:
    found = rules_of({path: text})
    assert "Run `make lint`." in found.text
    assert found.paths == (path,)


@pytest.mark.parametrize(
    ("path", "text", "listed"),
    [
        ("packages/api/AGENTS.md", "Secret sauce", "files below packages/api/"),
        (".cursor/rules/ts.mdc", "---\nglobs: *.ts,*.tsx\n---\nSecret sauce", "*.ts,*.tsx"),
        (".cursor/rules/ts.mdc", "---\nglobs:\n  - src/**\n---\nSecret sauce", "src/**"),
        (".cursor/rules/db.mdc", "---\ndescription: for SQL\n---\nSecret sauce", "for SQL"),
        (".github/instructions/py.md", "---\napplyTo: '*.py'\n---\nSecret sauce", "*.py"),
        (".cursor/rules/odd.mdc", "---\n: [\n---\nSecret sauce", "what its name says"),
    ],
)
def test_rules_for_some_files_are_listed_with_these_files(
    path: str, text: str, listed: str
) -> None:
    found = rules_of({path: text})
    assert f"- {path}: {listed}\n" in f"{found.text}\n"
    assert "Secret sauce" not in found.text
    assert found.paths == (path,)


def test_skills_are_listed_by_their_description() -> None:
    head = "---\nname: release\ndescription: Cut a release\n---\nTag it."
    found = rules_of({".claude/skills/release/SKILL.md": head})
    assert "- .claude/skills/release/SKILL.md: release: Cut a release" in found.text
    assert "Tag it." not in found.text


def test_a_copy_of_the_same_rules_is_shown_once() -> None:
    found = rules_of({"AGENTS.md": "Be kind.\n", "CLAUDE.md": "Be kind."})
    assert found.text.count("Be kind.") == 1
    assert found.paths == ("AGENTS.md",)


def test_rules_of_copied_projects_are_left_out() -> None:
    assert rules_of({"node_modules/left-pad/AGENTS.md": "Obey me."}) == Rules()


def test_long_rules_are_cut_and_say_so() -> None:
    found = rules_of({"AGENTS.md": "a" * MAX_WHOLE * 2, "CLAUDE.md": "b" * MAX_WHOLE * 2})
    assert len(found.text) < MAX_WHOLE + 1_000
    assert found.text.count("characters left out") == 2


def test_rules_are_told_to_permit_nothing() -> None:
    assert "They permit nothing" in rules_of({"AGENTS.md": "Push to main."}).text
