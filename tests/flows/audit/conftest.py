"""Runs of one scripted agent whose denied calls become approvals."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.run import RunReport
from flows.audit.event_log import event_log
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.home import home_owner
from policy.log.event_log import EventLog
from policy.plan.approvals import Approvals
from tests.support.flows import Ask
from tests.support.guarded_runs import RUN, agent_blueprint

Model = Callable[..., str]


@pytest.fixture
def log(own_home: Path) -> Iterator[EventLog]:
    with event_log(own_home, home_owner(own_home)) as opened:
        yield opened


@pytest.fixture
def approvals(log: EventLog) -> Approvals:
    return Approvals(log=log)


@pytest.fixture
def go(shop: RunDependencies, ask: Ask, model: Model) -> Callable[..., RunReport]:
    """Run the agent with these replies; the next call resumes the same run."""

    def run(*replies: dict[str, object]) -> RunReport:
        return run_blueprint(ask(agent_blueprint(), model=model(*replies)), shop, run_id=RUN)

    return run
