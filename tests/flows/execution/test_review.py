"""A review sees all that a branch adds to its main branch, not only the last commit."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.library.review import review
from contracts.errors import RepoInvalid
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from tests.support.flows import DONE, Ask
from tests.support.repositories import commit, git


def test_a_branch_is_reviewed_from_where_it_left_main(
    shop: RunDependencies, ask: Ask, repository: Path, model: Callable[..., str]
) -> None:
    git(repository, "checkout", "--quiet", "-b", "feature")
    for number in ("first", "second"):
        add(repository, number)
    report = run_blueprint(ask(review, model=model(DONE)), shop, run_id="abcd1234")
    changes = next(node for node in report.nodes if node.name == "changes")
    assert report.status == "success"
    assert "Add the first file" in changes.output
    assert "Add the second file" in changes.output


@pytest.mark.parametrize(
    ("scheme", "base", "seen"),
    [
        ("", "main", ["second", "third"]),
        ("", "v1", ["first", "second", "third"]),
        ("file://", "v1", ["first", "second", "third"]),
        ("file://", None, ["second", "third"]),
    ],
)
def test_a_branch_is_reviewed_from_the_base_that_is_told(
    shop: RunDependencies,
    ask: Ask,
    repository: Path,
    model: Callable[..., str],
    scheme: str,
    base: str | None,
    seen: list[str],
) -> None:
    git(repository, "tag", "v1")
    add(repository, "first")
    git(repository, "checkout", "--quiet", "-b", "feature")
    add(repository, "second")
    add(repository, "third")
    git(repository, "checkout", "--quiet", "main")
    request = ask(review, repo=f"{scheme}{repository}", model=model(DONE))
    told = request.changed(ref="feature", options={"base": base} if base else {})
    report = run_blueprint(told, shop, run_id="abcd1234")
    changes = next(node for node in report.nodes if node.name == "changes")
    assert re.findall(r"^\+\+\+ b/(\w+)", changes.output, re.MULTILINE) == seen


def add(repository: Path, name: str) -> None:
    """One more commit with one more file."""
    (repository / name).write_text(f"{name}\n")
    git(repository, "add", "--all")
    commit(repository, f"Add the {name} file")


def test_a_base_that_is_not_there_is_refused_before_anything_starts(
    shop: RunDependencies, ask: Ask
) -> None:
    with pytest.raises(RepoInvalid, match="no branch, tag or commit 'nope'"):
        run_blueprint(ask(review).changed(options={"base": "nope"}), shop, run_id="abcd1234")


def test_what_the_reviewer_says_is_the_output_of_its_node(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    request = ask(review, model=model(DONE)).changed(intent="look at errors")
    report = run_blueprint(request, shop, run_id="abcd1234")
    said = next(node for node in report.nodes if node.name == "review")
    assert (said.output, report.branch) == ("Done.", None)
