"""How CI tests a project, as the last resort, and only if its line is plain."""

import pytest

from nodes.projects.ci import ci_test
from nodes.projects.find import find_project
from nodes.projects.types import ProjectFiles
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import run_git
from tests.support.workspace import context, put_repo

WORKFLOW = """
on: push
jobs:
  lint:
    steps:
      - run: ./lint --tests
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: pip install pytest
      - name: Test
        run: STEP
"""
GITLAB = """
stages: [build, test]
include: [{local: other.yml}]
build:
  script: make tests
unit:
  stage: test
  script:
    - apt-get install -y lua5.4
    - STEP
"""
ACTIONS = ".github/workflows/ci.yml"


def found(name: str, text: str) -> tuple[str, ...] | None:
    test = ci_test(ProjectFiles(frozenset((name,)), lambda _: text.encode()))
    return test.argv if test else None


@pytest.mark.parametrize(("name", "text"), [(ACTIONS, WORKFLOW), (".gitlab-ci.yml", GITLAB)])
@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("./run_tests.sh --all", ("./run_tests.sh", "--all")),
        ("bazel test //...", ("bazel", "test", "//...")),
        ("prove -r 't'", ("prove", "-r", "t")),
        ("lua test.lua > log", None),
        ("./test.sh && ./deploy.sh", None),
        ("./test ${{ matrix.version }}", None),
        ("make $TEST", None),
        ("docker run test", None),
        ("./build.sh", None),
        ("'./test \"open'", None),
    ],
)
def test_only_a_plain_line_of_a_test_job_is_taken(
    name: str, text: str, line: str, argv: tuple[str, ...] | None
) -> None:
    assert found(name, text.replace("STEP", line)) == argv


@pytest.mark.parametrize(
    "text",
    [
        WORKFLOW.replace("STEP", "./test.sh\n        env: {A: b}"),
        WORKFLOW.replace("STEP", "./test.sh\n        working-directory: a"),
        WORKFLOW.replace("STEP", "|\n          cd a\n          ./test.sh"),
        WORKFLOW.replace("STEP", "./test.sh").replace("ubuntu", "windows"),
        WORKFLOW.replace("  test:", "  build:").replace("STEP", "./test.sh"),
        "jobs: [test]",
        "jobs: {test: {steps: [{run: [./test.sh]}, 3]}}",
        "a: &a [*a]",
        "{",
    ],
)
def test_a_step_that_needs_more_than_its_line_is_left_alone(text: str) -> None:
    assert found(ACTIONS, text) is None


def test_what_ci_runs_tests_a_project_that_no_other_rule_fits(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {ACTIONS: WORKFLOW.replace("STEP", "./run_tests.sh"), "a.lua": ""})
    project = find_project(context(sandbox), sandbox)
    assert project.test == ("./run_tests.sh",)
    assert f"the job test of {ACTIONS} tests it" in project.why
    assert "lua5.4" in project.packages


def test_a_rule_of_the_ecosystem_comes_first(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {ACTIONS: WORKFLOW.replace("STEP", "./run_tests.sh"), "Makefile": "test:\n"})
    assert find_project(context(sandbox), sandbox).test == ("make", "test")


def test_of_several_projects_the_one_that_the_branch_changed_is_chosen(
    sandbox: ScriptedSandbox,
) -> None:
    place = put_repo(sandbox, {"a/go.mod": "", "b/Makefile": "test:\n", "README": ""})
    run_git(place, "update-ref", "refs/remotes/origin/HEAD", "HEAD")
    assert find_project(context(sandbox), sandbox).test is None
    (place / "b" / "new.c").write_text("")
    (place / "README").write_text("new")
    run_git(place, "add", "--all")
    run_git(place, "commit", "--quiet", "--message", "Change b")
    project = find_project(context(sandbox), sandbox)
    assert (project.folder, project.test) == ("b", ("make", "test"))
    assert "in b, the only project with changes of the branch" in project.why
