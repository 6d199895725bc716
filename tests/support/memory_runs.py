"""Shared by the tests of memory_runs."""

import json
from collections.abc import Mapping

from contracts.run import NodeReport, NodeStatus, RunReport, RunStatus
from contracts.tool import ToolCall
from memory.playbooks.learn import FeedbackResult, record_feedback
from memory.playbooks.library import Library
from memory.playbooks.tools import ToolAccess, run_playbook_tool
from memory.types import Execution, Outcome, RecallOptions, Reflection

SHOW_ALL = RecallOptions(holdout_share=0.0, max_distance=2.0)


HOLD_OUT = RecallOptions(holdout_share=1.0, max_distance=2.0)


def ended(
    run_id: str,
    status: RunStatus = "success",
    said: str = "",
    error: str = "",
    *,
    raised: bool = False,
) -> RunReport:
    node: NodeStatus = "failure" if error else "success"
    report = NodeReport(
        name="fix", type="agentic", status=node, output=said, error=error or None, raised=raised
    )
    failed = "fix" if error else None
    return RunReport(
        run_id=run_id, blueprint="fix-tests", status=status, nodes=(report,), failed_node=failed
    )


def say(library: Library, ref: str, run_id: str, outcome: Outcome, *lessons: str) -> FeedbackResult:
    said = Reflection(what_failed=("no tests",), improvements=lessons)
    return record_feedback(
        library, ref, Execution(run_id=run_id, outcome=outcome, task="typed", reflection=said)
    )


def call_as(
    run_id: str, access: ToolAccess, library: Library, name: str, **arguments: object
) -> Mapping[str, object]:
    asked = ToolCall(id="1", name=name, arguments=json.dumps(arguments))
    answer = json.loads(run_playbook_tool(library, asked, run_id=run_id, access=access))
    assert isinstance(answer, dict)
    return answer
