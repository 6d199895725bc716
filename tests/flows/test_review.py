"""A review sees all that a branch adds to its main branch, not only the last commit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from blueprints.library.review import review
from flows.run import run_blueprint
from flows.workshop import Workshop
from tests.flows.conftest import DONE, Ask
from tests.flows.repositories import commit, git


def test_a_branch_is_reviewed_from_where_it_left_main(
    shop: Workshop, ask: Ask, repository: Path, model: Callable[..., str]
) -> None:
    git(repository, "checkout", "--quiet", "-b", "feature")
    for number in ("first", "second"):
        (repository / f"{number}.txt").write_text(f"{number}\n")
        git(repository, "add", "--all")
        commit(repository, f"Add the {number} file")
    report = run_blueprint(ask(review, model=model(DONE)), shop, run_id="abcd1234")
    changes = next(node for node in report.nodes if node.name == "changes")
    assert report.status == "success"
    assert "Add the first file" in changes.output
    assert "Add the second file" in changes.output


def test_what_the_reviewer_says_is_the_output_of_its_node(
    shop: Workshop, ask: Ask, model: Callable[..., str]
) -> None:
    request = replace(ask(review, model=model(DONE)), intent="look at errors")
    report = run_blueprint(request, shop, run_id="abcd1234")
    said = next(node for node in report.nodes if node.name == "review")
    assert (said.output, report.branch) == ("Done.", None)
