"""Deployments as `prefect.yaml` has them, run by a real process worker."""

from pathlib import Path

import httpx
import pytest

from app.demo import request as demo
from app.demo.request import make_repository
from flows.deploy import start_deployment
from tests.flows.repositories import git
from tests.flows.workers import make_pool, prefect, work

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

SCRIPT = Path(demo.__file__).with_name("replies.jsonl")
BLUEPRINTS = {"fix-tests", "implement", "review", "upgrade-deps", "run-blueprint", "run-plan"}
UPKEEP = {"reap-sandboxes", "expire-approvals", "prune-memory", "reindex-memory"}
TEACH = {"curate-run", "curate-runs"}


def test_all_deployments_deploy_and_a_worker_runs_one(prefect_api: str, tmp_path: Path) -> None:
    # Others use this server too: its pool and more deployments may be there.
    make_pool(prefect_api, "harness")
    prefect(prefect_api, "deploy", "--all")
    found = httpx.post(f"{prefect_api}/deployments/filter", json={}).json()
    assert {deployment["name"] for deployment in found} >= BLUEPRINTS | UPKEEP | TEACH
    repository = make_repository(tmp_path / "opening-hours")
    given = {"repo": str(repository), "model": f"scripted/{SCRIPT}"}
    run = start_deployment(prefect_api, "fix-tests", given)
    assert work(prefect_api, run, pool="harness", cwd=tmp_path) == "Completed"
    branches = git(repository, "branch", "--list", "harness/*", "--format", "%(refname:short)")
    assert "span.start <= hour < span.end" in git(
        repository, "show", f"{branches}:opening_hours.py"
    )
