"""Prefect's own command line and a worker for the tests of deployments."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryFile

import httpx
import yaml
from prefect.workers.process import ProcessWorker

from flows.services.deploy import deploy_file
from tests.support.forks import Fork, command
from tests.support.here import here

PROJECT = Path(__file__).parents[2]
ASKS = 5
"""How often a worker is sent for one run: when its only request fails it ends without a word."""


def prefect(fork: Fork, api: str, *args: str, cwd: Path = PROJECT) -> str:
    """What the `prefect` command prints, in an environment that is activated.

    The pool of a server that `harness up` has seen has its runs done by `python`.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PREFECT_API_URL": api}
    with TemporaryFile() as out:
        done = fork("prefect", "--no-prompt", *args, cwd=cwd, env=env, stdout=out, stderr=out)
        code = done.wait()
        said = os.pread(out.fileno(), 1 << 20, 0).decode()
    assert code == 0, said
    return said


def make_pool(api: str, name: str, *, runs_by: str | None = None) -> None:
    """A pool for process workers, unless it is there; runs are done by this command."""
    template = ProcessWorker.get_default_base_job_template()
    template["variables"]["properties"]["command"]["default"] = runs_by
    pool = {"name": name, "type": "process", "base_job_template": template}
    made = here().post(f"{api}/work_pools/", json=pool)
    assert made.is_success or made.status_code == httpx.codes.CONFLICT


def deploy(api: str, name: str, *, pool: str, within: Path) -> None:
    """Make or move one deployment of `prefect.yaml` into this pool; its runs are forked."""
    make_pool(api, pool, runs_by=command("prefect.engine"))
    meant = yaml.safe_load((PROJECT / "prefect.yaml").read_text())
    [one] = [entry for entry in meant["deployments"] if entry["name"] == name]
    alone = {**meant, "deployments": [{**one, "work_pool": {"name": pool}}]}
    (within / "prefect.yaml").write_text(yaml.safe_dump(alone))
    deploy_file(api, within / "prefect.yaml")
    # Another test may have made it in another pool of this server, and it keeps what it has.
    [found] = here().post(f"{api}/deployments/filter", json=_named(name)).json()
    moved = here().patch(f"{api}/deployments/{found['id']}", json={"work_pool_name": pool})
    moved.raise_for_status()


def _named(name: str) -> dict[str, object]:
    return {"deployments": {"name": {"any_": [name]}}}


def work(fork: Fork, api: str, run: str, *, pool: str, cwd: Path) -> str:
    """Let a worker take the flow run as far as it goes; gives its state's name.

    It works the pool's queue `default`, for upkeep has its own and may be due just now. What
    it says goes to stdout, for whoever reads why a test failed.
    """
    for _ in range(ASKS):
        queue = ("--pool", pool, "--work-queue", "default")
        once = ("--run-once", "--limit", "1")
        sys.stdout.write(prefect(fork, api, "worker", "start", *queue, *once, cwd=cwd))
        state = here().get(f"{api}/flow_runs/{run}").raise_for_status().json()["state"]
        if state["type"] != "SCHEDULED":
            return str(state["name"])
    raise AssertionError(f"no worker took run {run}")
