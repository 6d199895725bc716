"""Deployments as `prefect.yaml` has them, run by a real process worker."""

from pathlib import Path

import pytest

from app.demo import request as demo
from app.demo.request import make_repository
from flows.services.deploy import deploy_file, start_deployment
from tests.support.forks import Fork
from tests.support.here import here
from tests.support.repositories import git
from tests.support.workers import PROJECT, make_pool, prefect, work

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

OF_ONE = {
    "id", "created", "updated", "global_concurrency_limit", "anchor_date", "version_id",
    "deployment_id", "version",
}  # fmt: skip
"""What is another each time that a deployment is made, or in another git repository."""

SCRIPT = Path(demo.__file__).with_name("replies.jsonl")
BLUEPRINTS = {
    *("ci-doctor", "fix-tests", "implement", "release-notes", "review", "triage"),
    *("update-docs", "upgrade-deps"),
    *("run-blueprint", "run-plan"),
}
UPKEEP = {
    "zz-answer-comments",
    "zz-expire-approvals",
    "zz-prune-memory",
    "zz-reap-sandboxes",
    "zz-reindex-memory",
}
TEACH = {"zz-curate-run", "zz-curate-runs"}


def test_all_deployments_deploy_and_a_worker_runs_one(
    own_api: str, fork: Fork, tmp_path: Path
) -> None:
    make_pool(own_api, "harness")
    taken_out(own_api)
    prefect(fork, own_api, "deploy", "--all")
    by_hand = taken_out(own_api)
    assert by_hand.keys() == BLUEPRINTS | UPKEEP | TEACH
    tagged = {n for n, one in by_hand.items() if isinstance(one, dict) and "upkeep" in one["tags"]}
    assert tagged == UPKEEP | TEACH == set(sorted(by_hand)[-len(tagged) :])
    deploy_file(own_api, PROJECT / "prefect.yaml")
    deploy_file(own_api, PROJECT / "prefect.yaml")  # the second time they are there
    assert taken_out(own_api) == by_hand
    deploy_file(own_api, PROJECT / "prefect.yaml")
    repository = make_repository(tmp_path / "opening-hours")
    given = {"repo": str(repository), "model": f"scripted/{SCRIPT}"}
    run = start_deployment(own_api, "fix-tests", given)
    assert work(fork, own_api, run, pool="harness", cwd=tmp_path) == "Completed"
    branches = git(repository, "branch", "--list", "harness/*", "--format", "%(refname:short)")
    assert "span.start <= hour < span.end" in git(
        repository, "show", f"{branches}:opening_hours.py"
    )


def taken_out(api: str) -> dict[str, object]:
    """All deployments of the server, by name, as far as two can be alike; they are then gone."""
    found = here().post(f"{api}/deployments/filter", json={}).json()
    for one in found:
        here().delete(f"{api}/deployments/{one['id']}").raise_for_status()
    return {one["name"]: alike(one) for one in found}


def alike(found: object) -> object:
    match found:
        case dict():
            return {k: alike(v) for k, v in found.items() if k not in OF_ONE}
        case list():
            return [alike(one) for one in found]
        case _:
            return found
