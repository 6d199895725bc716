"""The repository's rule files in a run: what the agent is given, and what the report says."""

import json
from collections.abc import Callable
from pathlib import Path

from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from tests.support.flows import DONE, Ask
from tests.support.guarded_runs import agent_blueprint
from tests.support.repositories import git

RUN = "abcd1234"


def first_prompt(shop: RunDependencies) -> str:
    """The system message of the model's first request."""
    lines = (shop.runs / RUN / "trajectory.jsonl").read_text().splitlines()
    request = next(one for one in map(json.loads, lines) if one["kind"] == "request")
    return str(request["messages"][0]["content"])


def test_agents_are_given_the_rules_of_the_base_commit(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], repository: Path
) -> None:
    (repository / "AGENTS.md").write_text("Write tests first.\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Rules")
    (repository / "AGENTS.md").write_text("Not committed.\n")
    report = run_blueprint(ask(agent_blueprint(), model=model(DONE)), shop, run_id=RUN)
    prompt = first_prompt(shop)
    assert "Write tests first." in prompt
    assert "Not committed." not in prompt
    assert "agents were given rule files: AGENTS.md" in report.notices


def test_a_repository_without_rules_gets_no_section(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    report = run_blueprint(ask(agent_blueprint(), model=model(DONE)), shop, run_id=RUN)
    assert "Rules of this repository" not in first_prompt(shop)
    assert not any("rule files" in notice for notice in report.notices)
