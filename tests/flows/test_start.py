"""A run started in this process, on a local server of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from blueprints.dsl import blueprint, deterministic
from blueprints.engine import Watch
from contracts.errors import PrefectUnavailable
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows import local
from flows.request import RunRequest
from flows.runs import read_report
from flows.settings import Settings
from flows.start import run_in_prefect
from tests.flows.repositories import git

pytestmark = [pytest.mark.prefect, pytest.mark.docker]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    made = Settings(home=tmp_path / "home", server_port=0)
    yield made
    local.down(made)


def test_a_server_that_dies_in_the_middle_is_said_and_costs_no_work(
    settings: Settings, repository: Path
) -> None:
    def kill_the_server(_: RunContext, sandbox: Sandbox) -> NodeResult:
        local.down(settings)
        sandbox.write_file("answer.txt", b"42\n")
        return NodeResult.success()

    request = RunRequest(
        blueprint=blueprint("b", "b", [deterministic("kill", "kill", kill_the_server)]),
        repo=str(repository),
        agent="native",
        model="scripted/none",
    )
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),  # its default patience: two minutes
        pytest.raises(PrefectUnavailable, match="stopped answering during the run"),
    ):
        run_in_prefect(request, settings, run_id="abcd1234", watch=Watch())
    report = read_report(settings.runs, "abcd1234")
    assert report.status == "success"
    assert git(repository, "show", f"{report.branch}:answer.txt") == "42"
