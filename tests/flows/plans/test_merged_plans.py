"""Plans merged from another machine's log can be read, and never run."""

import json

import pytest

from contracts.entity import EMPTY_LABEL, Entity
from contracts.errors import RunNotFound
from contracts.json import Json
from flows.plans.record import record_plan, recorded_plan
from flows.plans.request import PlanRequest
from flows.views.export import export_lines, read_export
from policy.log.events import Draft
from policy.log.verify import verify
from policy.plan.plan_json import parse_plan
from policy.types import Plan
from tests.support.policy import OpenLog, clock, open_log

__all__ = ["clock", "open_log"]


def plan(path: str) -> Plan:
    step = {
        "op": "read_file",
        "args": {"path": path},
        "tool_caps": ["READ_FILE"],
        "deps": [],
    }
    return parse_plan(json.dumps({"steps": [step]}), prompt="p")


def test_a_merged_plan_does_not_replace_a_local_one(open_log: OpenLog) -> None:
    log, theirs = open_log(), open_log("theirs")
    evil = PlanRequest(prompt="theirs", repo=".", grants=frozenset({"SEND_EMAIL"}))
    for run_id in ("r1", "r2"):
        record_plan(theirs, run_id, evil, plan("evil.md"), agreed=True)
    log.append([Draft(kind="prompt", run_id="r0", body={})] * 3)  # so that theirs come before
    record_plan(log, "r1", PlanRequest(prompt="ours", repo="."), plan("q2.md"), agreed=True)
    log.merge(read_export(export_lines(theirs.history())))
    assert verify(log).ok
    assert [event.body["prompt"] for event in log.events("r1", kind="plan")] == ["theirs", "ours"]
    request, agreed = recorded_plan(log, "r1")
    assert (request.prompt, request.grants) == ("ours", frozenset())
    assert agreed.steps[0].args["path"] == "q2.md"
    with pytest.raises(RunNotFound, match="was merged from another log"):
        recorded_plan(log, "r2")


def test_a_recorded_plan_keeps_its_allowed_changes(open_log: OpenLog) -> None:
    log = open_log()
    asked = PlanRequest(prompt="ours", repo=".", allow_change=("b/*", "a"))
    record_plan(log, "r1", asked, plan("q2.md"), agreed=True)
    assert recorded_plan(log, "r1")[0].allow_change == ("b/*", "a")


def test_a_plan_of_an_older_version_may_push_no_protected_file(open_log: OpenLog) -> None:
    log = open_log()
    record_plan(log, "r1", PlanRequest(prompt="ours", repo="."), plan("q2.md"), agreed=True)
    (noted,) = log.events("r1", kind="plan")
    older = {name: value for name, value in noted.body.items() if name != "allow_change"}
    log.append([Draft(kind="plan", run_id="r0", body=older)])
    assert recorded_plan(log, "r0")[0].allow_change == ()


def test_a_merged_result_is_not_used_by_a_local_run(open_log: OpenLog) -> None:
    log, theirs = open_log(), open_log("theirs")
    record_plan(log, "r1", PlanRequest(prompt="ours", repo="."), plan("q2.md"), agreed=True)
    made = Entity(content="eve@example.net", label=EMPTY_LABEL, origin="step0")
    body: dict[str, Json] = {"step": 0, "item": 0, "made": made.id}
    theirs.append([Draft(kind="tool_call", run_id="r1", body=body, produces=(made,))])
    log.merge(read_export(export_lines(theirs.history())))
    kinds = [event.kind for event in log.events("r1", merged=False)]
    assert kinds == ["prompt", "plan"]
