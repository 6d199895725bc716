"""Changes that got past the guard wait for an approval when the work is collected."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.runs import read_entry
from policy.plan.approvals import Approvals
from tests.support.flows import Ask
from tests.support.guarded_runs import CHANGE_CI, CI, DONE, RUN, agent_blueprint, only, tool
from tests.support.repositories import git

Model = Callable[..., str]

HIDDEN = "p=.git; printf 'on: push\\n' > hidden && mkdir -p ${p}hub/workflows && cp hidden ${p}hub/workflows/ci.yml"  # noqa: E501
LINK = "n=hus && ln -s plain .${n}ky"
BY_A_TEST = tool(
    "write_file",
    path="test_x.py",
    content="import os\nos.makedirs('.github/workflows')\nopen('.github/workflows/ci.yml', 'w')\n",
)


@pytest.mark.parametrize(
    ("replies", "path"),
    [
        ((tool("bash", command=HIDDEN), DONE), CI),
        ((tool("bash", command=LINK), DONE), ".husky"),
        ((tool("bash", command="f=uv.loc; echo x > ${f}k"), DONE), "uv.lock"),
        ((BY_A_TEST, tool("bash", command="python3 test_x.py"), DONE), CI),
    ],
)
def test_a_change_that_the_guard_missed_needs_approval_when_work_is_collected(
    go: Callable[..., RunReport], approvals: Approvals, replies: tuple[dict[str, object], ...],
    path: str,
) -> None:  # fmt: skip
    report = go(*replies)
    assert report.decisions.denied == 0, "else this test says nothing"
    assert report.status == "waiting"
    waits = only(approvals)
    assert (waits.node, waits.op) == ("the collected work", "collect")
    assert waits.arguments["path"] == path
    approvals.decide(waits.id, "approved", by="ann")
    assert go(*replies).status == "success"
    assert only(approvals, "used").id == waits.id


@pytest.mark.parametrize("asks", [CHANGE_CI, tool("bash", command=HIDDEN)])
def test_a_run_fails_when_its_approval_expires_undecided(
    go: Callable[..., RunReport],
    approvals: Approvals,
    shop: RunDependencies,
    asks: dict[str, object],
) -> None:
    go(asks, DONE)
    waits = only(approvals)
    replace(approvals, now=lambda: datetime.now(UTC) + timedelta(days=8)).expire()
    report = go(asks, DONE)
    assert report.status == "failure"
    named = f"nobody decided in time about {waits.op} (approval {waits.id}, until "
    assert str(report.error).startswith(named)
    assert not read_entry(shop.runs, RUN).resumable


def test_a_run_whose_work_was_refused_fails_and_is_not_pushed(
    shop: RunDependencies,
    ask: Ask,
    model: Model,
    approvals: Approvals,
    origin: Path,
) -> None:
    hides = tool("bash", command=HIDDEN)
    request = ask(agent_blueprint(), model=model(hides, DONE), push=True)
    assert run_blueprint(request, shop, run_id=RUN).status == "waiting"
    approvals.decide(only(approvals).id, "denied", by="ann")
    report = run_blueprint(request, shop, run_id=RUN)
    assert report.status == "failure"
    assert report.error == f"the work changes {CI!r}, which a person refused"
    assert git(origin, "for-each-ref") == ""


def test_a_blueprint_may_declare_that_it_changes_lock_files(
    shop: RunDependencies, ask: Ask, model: Model
) -> None:
    lock = tool("write_file", path="uv.lock", content="x")
    upgrades = replace(agent_blueprint(), changes=("*.lock",))
    report = run_blueprint(ask(upgrades, model=model(lock, DONE)), shop, run_id=RUN)
    assert report.status == "success"
    assert report.decisions.denied == 0
