"""What `claude`, `pi` and the native agent are denied waits for a person, who lets it through."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from contracts.agents import AGENTS
from contracts.model_access import AgentUsage, GuardBounds
from contracts.run import DecisionCounts
from flows.audit.event_log import event_log
from policy.guard.guard import SECRET_FILES
from policy.guard.protected import default_patterns
from policy.plan.approvals import Approvals
from providers.client import Gateway
from sandbox.container import DockerSandbox
from tests.support.agent_calls import NAMES, reply, shell, write
from tests.support.agents import Bench
from tests.support.hostile import inside, set_up_hostile_repository
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.docker

WRITERS = [agent for agent in AGENTS if "write" in NAMES[agent]]
"""Agents that have a tool for writing files: what others write is looked at after the run."""

CI = "/workspace/.github/workflows/ci.yml"


@pytest.fixture(scope="module")
def approvals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Approvals]:
    with event_log(tmp_path_factory.mktemp("home"), "test") as log:
        yield Approvals(log=log)


@pytest.fixture(scope="module")
def gateway(approvals: Approvals) -> Iterator[Gateway]:
    with running_gateway(approvals=lambda: approvals) as client:
        yield client


@pytest.fixture(autouse=True)
def repository(agents_sandbox: DockerSandbox) -> None:
    set_up_hostile_repository(agents_sandbox)


def bounds(wait_s: float) -> GuardBounds:
    return GuardBounds(
        taint=("repo:shop",),
        protected=default_patterns(),
        secret=SECRET_FILES,
        ask=True,
        wait_s=wait_s,
    )


@pytest.mark.parametrize("agent", WRITERS)
def test_an_agent_waits_for_an_approval(bench: Bench, approvals: Approvals, agent: str) -> None:
    with person(lambda name: approvals.decide(name, "approved", by="ann"), approvals):
        result = bench(
            agent,
            reply("I add a job.", write(agent, CI, f"on: push # {agent}\n")),
            reply("Done."),
            bounds=bounds(wait_s=LONG_S),
        )
    assert result.error is None
    assert result.decisions == DecisionCounts(allowed=1)
    assert inside(bench.sandbox, f"cat {CI}") == f"on: push # {agent}"
    (used,) = [one for one in approvals.list() if one.agent == agent and one.status == "used"]
    assert (used.node, used.op) == ("fix", NAMES[agent]["write"])


@pytest.mark.parametrize("agent", WRITERS)
def test_an_agent_may_retry_a_call_after_its_approval(
    bench: Bench, approvals: Approvals, agent: str
) -> None:
    def decide(name: str) -> None:
        approvals.decide(name, "approved", by="ann")
        inside(bench.sandbox, "touch decided")

    again = write(agent, CI, f"on: retried # {agent}\n")
    once_decided = "until test -e decided; do sleep 0.1; done"
    with person(decide, approvals):
        result = bench(
            agent,
            reply("", again),
            reply("", shell(agent, once_decided)),
            reply("", again),
            reply("", again),
            reply("Done."),
            bounds=bounds(wait_s=0),
        )
    assert result.error is None
    assert result.decisions.denied >= 2, "before it was approved, and after it was used"
    assert inside(bench.sandbox, f"cat {CI}") == f"on: retried # {agent}"
    told = [str(event["text"]) for event in bench.events("result")]
    assert "It waits for a person as approval" in told[0]


@pytest.mark.parametrize("agent", WRITERS)
def test_an_agent_continues_its_conversation_after_a_decision(
    bench: Bench, approvals: Approvals, agent: str
) -> None:
    inside(bench.sandbox, "rm -rf /tmp/harness-agent")  # conversations of other tests
    asks = reply("", write(agent, CI, f"on: later # {agent}\n"))
    first = bench(agent, asks, reply("Later."), bounds=bounds(wait_s=0))
    assert first.conversation is not None
    approvals.decide(approvals.list(pending=True)[0].id, "approved", by="ann")
    before = len(bench.events("request"))
    talk = replace(
        first.conversation, told="Now it is approved.", spent=AgentUsage(), elapsed_s=0.0
    )
    result = bench(agent, asks, reply("Done."), so_far=talk, bounds=bounds(wait_s=0))
    assert (result.error, result.output, result.conversation) == (None, "Done.", None)
    assert result.decisions == DecisionCounts(allowed=1)
    asked = str(bench.events("request")[before]["messages"])
    assert "Now it is approved." in asked
    assert "SECRET-PROMPT" not in asked, "that was said before"
    seen = inside(bench.sandbox, f"cat {CI}; ls /tmp/harness-agent 2>/dev/null")
    assert seen == f"on: later # {agent}", "its file, and no conversation left"


@contextmanager
def person(decide: Callable[[str], object], approvals: Approvals) -> Iterator[None]:
    """Somebody who decides about the first question."""

    def work() -> None:
        first, *_ = wait_until(lambda: approvals.list(pending=True))
        decide(first.id)

    looking = threading.Thread(target=work)
    looking.start()
    try:
        yield
    finally:
        looking.join()
        for one in approvals.list(pending=True):
            approvals.decide(one.id, "denied", by="the end of the test")
