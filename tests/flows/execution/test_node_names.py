"""A node may be called anything that is one line; what is finished stays finished all the same."""

from collections.abc import Callable

from blueprints.dsl import agentic, blueprint, deterministic, step, validate
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows.audit.event_log import event_log
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.home import home_owner
from nodes.types import Node
from policy.plan.approvals import Approvals
from tests.support.flows import DONE, Ask
from tests.support.guarded_runs import CHANGE_CI, asked_prompt


def test_a_finished_node_with_a_slash_is_not_run_again_after_an_approval(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    done: list[str] = []

    def noting(name: str) -> Callable[[RunContext, Sandbox], NodeResult]:
        def work(_: RunContext, __: Sandbox) -> NodeResult:
            done.append(name)
            return NodeResult.success()

        return work

    nodes: list[Node] = [
        deterministic("install/deps", "install", noting("install")),
        validate(
            "check/all",
            "check",
            steps=[step("s/1", noting("step"))],
            on_failure=agentic("fix", "fix", prompt=lambda _: "fix"),
        ),
        agentic("work/it", "work", prompt=asked_prompt),
    ]
    request = ask(blueprint("slashes", "Slashes", nodes), model=model(CHANGE_CI, DONE, DONE))
    assert run_blueprint(request, shop, run_id="abcd1234").status == "waiting"
    home = load_settings().home
    with event_log(home, home_owner(home)) as log:
        approvals = Approvals(log=log)
        [asked] = approvals.list(run_id="abcd1234")
        approvals.decide(asked.id, "approved", by="ann")
    assert run_blueprint(request, shop, run_id="abcd1234").status == "success"
    assert done == ["install", "step"]
