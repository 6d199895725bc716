"""A deployed run whose pull request has checks and comments, with a real worker and server."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.config.settings import Settings, WebhookSettings
from flows.orchestration.start import connected_to
from flows.services.check_wait import end_wait
from flows.services.deploy import start_deployment
from flows.services.webhooks import waiting_flow_run
from flows.upkeep import answer_comments
from tests.support.forge_state import ACCOUNT, TOKEN, Check
from tests.support.forks import Fork
from tests.support.git_server import git_server
from tests.support.here import here
from tests.support.on_forge import write
from tests.support.recorded_forge import recorded_forge
from tests.support.repositories import git, make_repository
from tests.support.workers import deploy, prefect

POOL = "waits-for-checks"
BLUEPRINT = """---
name: answer
description: Write the answer
nodes:
  - name: work
---
Write 42 into answer.txt.
"""


@pytest.mark.prefect
@pytest.mark.docker
def test_a_deployed_run_holds_no_worker_while_checks_run_and_goes_on_for_checks_and_comments(
    prefect_api: str,
    fork: Fork,
    own_home: Path,
    model: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "git" / "team").mkdir(parents=True)
    bare = tmp_path / "git" / "team" / "app.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(make_repository(tmp_path / "app")), str(bare))
    git(bare, "config", "http.receivepack", "true")
    (tmp_path / "answer.md").write_text(BLUEPRINT)
    deploy(prefect_api, "run-blueprint", pool=POOL, within=tmp_path)
    with (
        git_server(tmp_path / "git", user="ann", password="s3cret") as host,
        recorded_forge("gitea") as there,
    ):
        forge = {"kind": "gitea", "api": there.api, "token_variable": "TEAM_TOKEN"}
        monkeypatch.setenv("TEAM_TOKEN", TOKEN)
        monkeypatch.setenv("HARNESS_FORGES", json.dumps({host: forge}))
        monkeypatch.setenv("HARNESS_ALLOWED_BLUEPRINTS", json.dumps([f"{tmp_path}/*.md"]))
        monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
        there.state.results += [[Check("test", "running")]]
        there.state.results += [[Check("test", "success")], [Check("test", "success")]]
        done = {"content": "Done."}
        replies = (write("40"), done, write("42"), done, write("43"), done)
        given = {
            "blueprint": f"{tmp_path}/answer.md",
            "repo": f"http://ann:s3cret@{host}/team/app.git",
            "model": model(*replies),
            "push": True,
        }
        run = start_deployment(prefect_api, "run-blueprint", given)

        def work() -> str:
            queue = ("--pool", POOL, "--work-queue", "default", "--run-once", "--limit", "1")
            sys.stdout.write(prefect(fork, prefect_api, "worker", "start", *queue, cwd=tmp_path))
            return str(here().get(f"{prefect_api}/flow_runs/{run}").json()["state"]["name"])

        assert work() == "AwaitingRetry"
        [checks] = there.state.checks.values()
        checks[0].state, checks[0].log = "failure", "E   assert 41 == 42"
        branch = there.pull.branch
        ended = {"repository": {"full_name": "team/app"}, "check_suite": {"head_branch": branch}}
        known = WebhookSettings(repositories={"team/app": "somewhere"})
        settings = Settings(home=own_home, webhooks=known)
        assert waiting_flow_run(ended, settings) == run
        assert end_wait(prefect_api, run)
        assert work() == "Completed"
        assert not end_wait(prefect_api, run)
        assert git(bare, "show", f"{branch}:answer.txt") == "42"
        assert not there.pull.draft
        [comment] = [one.body for one in there.pull.comments if one.author == ACCOUNT]
        assert "passed (round 1 of 2)" in comment
        there.state.members["ann"] = "write"
        there.state.comment_on(there.pull, "/harness write 43", author="ann")
        with connected_to(prefect_api):
            answer_comments()
        assert work() == "Completed"
        assert git(bare, "show", f"{branch}:answer.txt") == "43"
        answers = [one.body for one in there.pull.comments if "harness reply" in one.body]
        assert ["Pushed as" in body for body in answers] == [True]
        with connected_to(prefect_api):
            answer_comments()
        assert here().get(f"{prefect_api}/flow_runs/{run}").json()["state"]["name"] == "Completed"
