"""Deployments as `prefect.yaml` has them, run by a real process worker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from app.demo import request as demo
from app.demo.request import make_repository
from tests.flows.repositories import git

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

PROJECT = Path(__file__).parents[2]
SCRIPT = Path(demo.__file__).with_name("replies.jsonl")
BLUEPRINTS = {"fix-tests", "implement", "review", "upgrade-deps", "run-blueprint", "run-plan"}
UPKEEP = {"reap-sandboxes", "expire-approvals", "prune-memory", "reindex-memory"}
TEACH = {"curate-run", "curate-runs"}


def prefect(api: str, *args: str, cwd: Path = PROJECT) -> str:
    """What the `prefect` command prints."""
    done = subprocess.run(
        (sys.executable, "-m", "prefect", "--no-prompt", *args),
        cwd=cwd,
        env={**os.environ, "PREFECT_API_URL": api},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_pool(api: str, name: str) -> None:
    """A pool for process workers, unless it is there."""
    made = httpx.post(f"{api}/work_pools/", json={"name": name, "type": "process"})
    assert made.is_success or made.status_code == httpx.codes.CONFLICT


def test_all_deployments_deploy_and_a_worker_runs_one(prefect_api: str, tmp_path: Path) -> None:
    # Others use this server too: its pool and more deployments may be there.
    make_pool(prefect_api, "harness")
    prefect(prefect_api, "deploy", "--all")
    found = httpx.post(f"{prefect_api}/deployments/filter", json={}).json()
    assert {deployment["name"] for deployment in found} >= BLUEPRINTS | UPKEEP | TEACH
    repository = make_repository(tmp_path / "opening-hours")
    given = json.dumps({"repo": str(repository), "model": f"scripted/{SCRIPT}"})
    prefect(prefect_api, "deployment", "run", "fix-tests/fix-tests", "--params", given)
    # Upkeep has a queue of its own, and may be due just now.
    worker = ("worker", "start", "--pool", "harness", "--work-queue", "default", "--run-once")
    prefect(prefect_api, *worker, cwd=tmp_path)
    branches = git(repository, "branch", "--list", "harness/*", "--format", "%(refname:short)")
    assert "span.start <= hour < span.end" in git(
        repository, "show", f"{branches}:opening_hours.py"
    )
