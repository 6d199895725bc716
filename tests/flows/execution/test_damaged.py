"""One damaged file of one run keeps nobody from the other runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.reconcile import reconcile_lost_runs, record_late
from flows.execution.run_state import UnrecordedRun, mark_unrecorded
from flows.recall.playbooks import MemoryUnavailable
from flows.runs import checkpoint
from flows.runs.run_record import write_record
from flows.runs.runs import read_entry, save_report
from memory.types import RecordedRun
from nodes.commands import command
from sandbox.repos import fetch_base
from tests.support.flows import Ask

SICK, WELL = "aaaa1111", "bbbb2222"
WRITE = blueprint("write", "Write", [deterministic("write", "write", command("true"))])


def killed(shop: RunDependencies, ask: Ask, run_id: str) -> Path:
    """A run whose process is gone."""
    own = write_record(shop.runs, run_id, ask(WRITE), None)
    asked = json.loads((own / "run.json").read_text())
    (own / "run.json").write_text(json.dumps(asked | {"process": asked["process"] + "0"}))
    return own


def in_the_middle(shop: RunDependencies, ask: Ask, run_id: str) -> Path:
    own = killed(shop, ask, run_id)
    checkpoint.write_first(own, fetch_base(ask(WRITE).repo, None, store=shop.repos))
    return own


def before_it_was_recorded(shop: RunDependencies, ask: Ask, run_id: str) -> Path:
    own = killed(shop, ask, run_id)
    save_report(own, RunReport(run_id=run_id, blueprint="write", status="success"), "")
    mark_unrecorded(own, UnrecordedRun(verdict_later=False, over=True))
    return own


@pytest.mark.parametrize("name", ["run.json", "checkpoint.json", "trajectory.jsonl"])
@pytest.mark.parametrize("damaged", [b"\xff\n", b"null\n"])
def test_a_killed_run_is_settled_beside_one_that_is_damaged(
    shop: RunDependencies, ask: Ask, name: str, damaged: bytes
) -> None:
    (in_the_middle(shop, ask, SICK) / name).write_bytes(damaged)
    in_the_middle(shop, ask, WELL)
    reconcile_lost_runs(shop)
    assert read_entry(shop.runs, WELL).state == "failure"


@pytest.mark.parametrize("name", ["untold.json", "report.json"])
@pytest.mark.parametrize("damaged", [b"", b"\xff\n", b"null\n"])
def test_memory_is_told_of_a_run_beside_one_that_is_damaged(
    shop: RunDependencies, ask: Ask, name: str, damaged: bytes
) -> None:
    (before_it_was_recorded(shop, ask, SICK) / name).write_bytes(damaged)
    before_it_was_recorded(shop, ask, WELL)
    assert reconcile_lost_runs(shop) == 1


def test_a_run_that_memory_chokes_on_holds_up_no_other(shop: RunDependencies, ask: Ask) -> None:
    def record(report: RunReport, verdict_later: bool) -> RecordedRun | MemoryUnavailable | None:
        if report.run_id == SICK:
            raise ValueError("odd")
        return shop.memory.record(report, verdict_later)

    choking = replace(shop, memory=replace(shop.memory, record=record))
    for run_id in (SICK, WELL):
        before_it_was_recorded(shop, ask, run_id)
    assert [record_late(choking), record_late(shop)] == [1, 1]
