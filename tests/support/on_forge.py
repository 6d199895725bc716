"""A scripted run on a recorded forge: its dependencies, its model's replies, its rounds."""

import json
from dataclasses import replace

from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.forge.client import Forge
from flows.runs.request import ResolvedRequest
from tests.support.forge_state import TOKEN
from tests.support.recorded_forge import RecordedForge

RUN = "abcd1234"


def forge_of(there: RecordedForge, *, answers: int = 10) -> Forge:
    """The recorded forge as a run knows it, which answers so many comments."""
    return Forge(kind=there.kind, api=there.api, project="team/app", token=TOKEN, answers=answers)


def with_forge(
    shop: RunDependencies, there: RecordedForge, *, answers: int = 10
) -> RunDependencies:
    """Dependencies that find the recorded forge behind every remote."""
    return replace(shop, find_forge=lambda _: forge_of(there, answers=answers))


def write(content: str) -> dict[str, object]:
    """A reply that writes this into answer.txt."""
    arguments = json.dumps({"path": "answer.txt", "content": f"{content}\n"})
    return {"tool_calls": [{"function": {"name": "write_file", "arguments": arguments}}]}


def propose(proposed: object) -> dict[str, object]:
    """A last message that proposes these outputs."""
    return {"content": f"Done.\n\n```outputs\n{json.dumps(proposed)}\n```"}


def run_until_over(request: ResolvedRequest, dependencies: RunDependencies) -> RunReport:
    """Run as a flow does whose checks have always ended when it looks."""
    report = run_blueprint(request, dependencies, run_id=RUN)
    while report.waits_for_checks:
        report = run_blueprint(request, dependencies, run_id=RUN)
    return report
