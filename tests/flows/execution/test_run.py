"""A run end to end, on a real repository, without Prefect and without Docker."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import (
    agentic,
    blueprint,
    deterministic,
)
from contracts.errors import (
    ModelUnavailable,
    RepoInvalid,
    WorkRefused,
)
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.forge.client import Forge
from flows.runs.request import ResolvedRequest
from flows.runs.runs import read_diff, read_report
from nodes.commands import shell
from tests.support.flow_runs import WRITE_42, a_blueprint, checked
from tests.support.flows import DONE
from tests.support.forge_state import TOKEN
from tests.support.recorded_forge import recorded_forge
from tests.support.repositories import fingerprint, git

Ask = Callable[..., ResolvedRequest]


def test_the_work_is_on_a_branch_of_the_repository(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    request = ask(a_blueprint("echo 42 > answer.txt"))
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert report.status == "success"
    assert report.branch == "harness/abcd1234/one-command"
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"


def test_the_repository_is_otherwise_as_it_was(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    before = fingerprint(repository)
    run_blueprint(ask(a_blueprint("echo 42 > answer.txt")), shop, run_id="abcd1234")
    assert fingerprint(repository) == before


def test_the_report_and_the_diff_are_kept(shop: RunDependencies, ask: Ask) -> None:
    report = run_blueprint(ask(a_blueprint("echo 42 > answer.txt")), shop, run_id="abcd1234")
    assert read_report(shop.runs, "abcd1234") == report
    assert "+42" in read_diff(shop.runs, "abcd1234")
    assert (report.diff_stat.files, report.diff_stat.insertions) == (1, 1)


def test_a_run_that_changes_nothing_has_no_branch(shop: RunDependencies, ask: Ask) -> None:
    report = run_blueprint(ask(a_blueprint("true")), shop, run_id="abcd1234")
    assert (report.status, report.branch) == ("success", None)


def test_after_a_failed_node_the_work_is_still_on_the_branch(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    request = ask(a_blueprint("echo half > answer.txt; exit 3"))
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert report.status == "failure"
    assert report.error is not None
    assert "exit code 3" in report.error
    assert git(repository, "show", f"{report.branch}:answer.txt") == "half"


def test_a_run_that_fails_is_never_pushed(
    shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    origin = _with_origin(repository, tmp_path)
    request = ask(a_blueprint("echo half > answer.txt; exit 3"), push=True)
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert not report.pushed
    assert git(origin, "branch", "--list", "harness/*") == ""


def test_a_run_that_succeeds_is_pushed_when_asked(
    shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    origin = _with_origin(repository, tmp_path)
    request = ask(a_blueprint("echo 42 > answer.txt"), push=True)
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert report.pushed
    assert git(origin, "show", f"{report.branch}:answer.txt") == "42"


def test_what_was_pushed_becomes_a_pull_request(
    shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    origin = _with_origin(repository, tmp_path)
    request = ask(a_blueprint("echo 42 > answer.txt"), push=True).changed(until_green=0)
    with recorded_forge("gitea") as there:
        remotes: list[str] = []

        def find(remote: str) -> Forge:
            remotes.append(remote)
            return Forge(kind="gitea", api=there.api, project="team/app", token=TOKEN)

        report = run_blueprint(request, replace(shop, find_forge=find), run_id="abcd1234")
        assert report.pull_request == f"{there.url}/team/app/pulls/1"
        assert (there.pull.branch, there.pull.base) == (report.branch, "main")
        assert remotes == [str(origin)]


def test_a_pull_request_that_is_refused_fails_no_run(
    shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    _with_origin(repository, tmp_path)
    request = ask(a_blueprint("echo 42 > answer.txt"), push=True)
    with recorded_forge("gitea") as there:
        there.state.refuses = True
        forge = Forge(kind="gitea", api=there.api, project="team/app", token=TOKEN)
        refusing = replace(shop, find_forge=lambda _: forge)
        report = run_blueprint(request, refusing, run_id="abcd1234")
    assert (report.status, report.pushed, report.pull_request) == ("success", True, None)
    assert "403 " in report.notices[-1]


def test_a_run_is_not_pushed_unasked(
    shop: RunDependencies, ask: Ask, repository: Path, tmp_path: Path
) -> None:
    origin = _with_origin(repository, tmp_path)
    run_blueprint(ask(a_blueprint("echo 42 > answer.txt")), shop, run_id="abcd1234")
    assert git(origin, "branch", "--list", "harness/*") == ""


def test_an_agent_mends_what_a_check_finds(
    shop: RunDependencies, ask: Ask, repository: Path, model: Callable[..., str]
) -> None:
    request = ask(checked(), model=model(WRITE_42, DONE))
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert report.status == "success"
    assert [(node.name, node.status) for node in report.nodes] == [
        ("check", "success"),
        ("mend", "success"),
    ]
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"


def test_an_agent_ends_at_the_tokens_of_its_node(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    node = agentic("mend", "mend it", prompt=lambda ctx: "go", max_tokens=7)
    spent = {**WRITE_42, "usage": {"input": 7}}
    request = ask(blueprint("mend", "Mend", [node]), model=model(spent, DONE))
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert (report.nodes[0].status, report.nodes[0].turns) == ("failure", 1)
    assert str(report.nodes[0].error).startswith("token limit of 7 reached: spent 1 turns")


def test_a_model_outage_is_raised_and_reported(
    shop: RunDependencies, ask: Ask, repository: Path, model: Callable[..., str]
) -> None:
    """The script ends in the middle of the fix: what was written until then is not lost."""
    first = {**WRITE_42, "usage": {"input": 7, "cost_usd": 0.01}}
    with pytest.raises(ModelUnavailable):
        run_blueprint(ask(checked(), model=model(first)), shop, run_id="abcd1234")
    report = read_report(shop.runs, "abcd1234")
    assert report.status == "failure"
    assert "no reply left" in (report.error or "")
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"
    assert (report.token_usage.input, report.cost_usd) == (7, 0.01)


def test_what_an_outage_cost_counts_when_the_run_goes_on(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    first = {**WRITE_42, "usage": {"input": 7, "cost_usd": 0.01}}
    request = ask(checked(), model=model(first))
    with pytest.raises(ModelUnavailable):
        run_blueprint(request, shop, run_id="abcd1234")
    model(first, DONE)
    report = run_blueprint(request.changed(budget_usd=0.01), shop, run_id="abcd1234")
    told = {node.name: node.error for node in report.nodes}
    assert told["mend"] == "budget exceeded: $0.0100 of $0.01 are spent"
    assert (report.token_usage.input, report.cost_usd) == (7, 0.01)


def test_a_workspace_without_a_repository_is_refused(shop: RunDependencies, ask: Ask) -> None:
    with pytest.raises(WorkRefused):
        run_blueprint(ask(a_blueprint("rm -rf .git")), shop, run_id="abcd1234")
    assert read_report(shop.runs, "abcd1234").status == "failure"


def test_a_place_without_a_repository_leaves_no_run(
    shop: RunDependencies, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(RepoInvalid):
        run_blueprint(ask(a_blueprint("true"), repo=str(tmp_path)), shop, run_id="abcd1234")
    assert not shop.runs.exists()


def test_a_refused_way_out_is_a_notice_and_an_event(shop: RunDependencies, ask: Ask) -> None:
    tries = "curl --silent --max-time 20 http://elsewhere.invalid/ || true"
    nodes = [deterministic("try", "try to get out", shell(tries))]
    made = blueprint("tries", "Tries", nodes, egress=["allowed.invalid"])
    report = run_blueprint(ask(made), shop, run_id="abcd1234")
    assert report.notices == ("no network access to elsewhere.invalid:80: not on the allow-list",)
    events = (shop.runs / "abcd1234" / "egress.jsonl").read_text()
    assert json.loads(events)["kind"] == "refused"


def test_secrets_of_the_host_are_blanked_out(
    shop: RunDependencies, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.execution.wiring import build_dependencies

    monkeypatch.setenv("MY_TOKEN", "s3cr3t-v4lue")
    redacting = build_dependencies().redact
    assert redacting("it is s3cr3t-v4lue.") == "it is [redacted]."


def _with_origin(repository: Path, tmp_path: Path) -> Path:
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(origin))
    git(repository, "remote", "add", "origin", str(origin))
    return origin
