"""Links and secrets of the base commit: what a run is told, and whether it has a way out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from nodes.commands import shell
from tests.support.flows import Ask
from tests.support.repositories import git

TRIES = 'echo "proxy: ${HTTPS_PROXY:-none}"'


@pytest.fixture
def report(shop: RunDependencies, ask: Ask) -> Callable[..., RunReport]:
    def run(*egress: str) -> RunReport:
        nodes = [deterministic("try", "Try", shell(TRIES))]
        return run_blueprint(
            ask(blueprint("tries", "Tries", nodes, egress=egress)), shop, run_id="abcd1234"
        )

    return run


def commit(repository: Path, path: str, text: str) -> None:
    (repository / path).write_text(text)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "More")


def test_tracked_secrets_are_named_and_close_the_way_out(
    report: Callable[..., RunReport], repository: Path
) -> None:
    commit(repository, ".env", "PASSWORD=hunter22\n")
    ran = report("pypi.example.org")
    assert "proxy: none" in ran.nodes[0].output
    (told,) = (one for one in ran.notices if "look like secrets" in one)
    assert "'.env': so commands of this run reach no host" in told


def test_the_setting_leaves_the_way_out_open(
    report: Callable[..., RunReport], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_POLICY_TRACKED_SECRETS", "open")
    commit(repository, ".env", "PASSWORD=hunter22\n")
    ran = report("pypi.example.org")
    assert "proxy: http" in ran.nodes[0].output
    assert any("agents can read them and reach the allowed hosts" in one for one in ran.notices)


def test_without_a_way_out_tracked_secrets_are_only_named(
    report: Callable[..., RunReport], repository: Path
) -> None:
    commit(repository, "deploy.txt", "-----BEGIN RSA " + "PRIVATE KEY-----\n")
    assert any("'deploy.txt': agents can read them" in one for one in report().notices)


def test_a_repository_without_secrets_keeps_its_way_out(report: Callable[..., RunReport]) -> None:
    ran = report("pypi.example.org")
    assert "proxy: http" in ran.nodes[0].output
    assert not any("secrets" in one for one in ran.notices)


def test_links_that_lead_out_of_the_repository_are_a_notice(
    report: Callable[..., RunReport], repository: Path
) -> None:
    (repository / "up").symlink_to("../../etc/passwd")
    (repository / "absolute").symlink_to("/etc/passwd")
    (repository / "within").symlink_to("answer.txt")
    commit(repository, "x", "x")
    assert "links that lead out of the repository: 'absolute', 'up'" in report().notices
