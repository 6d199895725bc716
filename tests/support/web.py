"""Shared by the tests of web."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from blueprints.dsl import agentic, blueprint
from contracts.run import DiffStat, NodeReport, RunReport, SurfacedMemory
from flows.runs.run_record import write_record
from flows.runs.runs import save_report
from tests.support.requested import requested

HERE = "http://127.0.0.1:4280"


Serve = Callable[[], AbstractContextManager[str]]


def a_run(runs: Path, run_id: str, *, intent: str = "make it so", shown: str = "") -> None:
    """A run with one agentic node that has ended."""
    mend = blueprint("mend", "Mend", [agentic("fix", "Fix", prompt=lambda ctx: "fix")])
    request = requested(mend, "/somewhere/shop", intent=intent, model="scripted/x")
    own = write_record(runs, run_id, request, None)
    report = RunReport(
        run_id=run_id,
        blueprint="mend",
        status="success",
        nodes=(NodeReport(name="fix", type="agentic", status="success", output="it is mended"),),
        branch=f"harness/{run_id}/mend",
        pull_request="https://forge.example/shop/pulls/7",
        diff_stat=DiffStat(files=1, insertions=1, deletions=1),
        surfaced=SurfacedMemory(playbooks=(shown,) if shown else ()),
    )
    save_report(own, report, "--- a/x\n+++ b/x\n-old line\n+new line\n")
