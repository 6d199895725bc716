"""What a node sees of the nodes before it."""

from blueprints.dsl import agentic, deterministic
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from sandbox.scripted import ScriptedSandbox
from tests.support.small_nodes import FIXED, agent_writes, check, run, works


def test_later_nodes_see_earlier_results(sandbox: ScriptedSandbox) -> None:

    def repeat(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(ctx.results["first"].output)

    report = run(
        sandbox,
        deterministic("first", "", works("hello")),
        deterministic("second", "", repeat),
    )
    assert report.nodes[1].output == "hello"


def test_a_prompt_sees_earlier_results(sandbox: ScriptedSandbox) -> None:
    report = run(
        sandbox,
        deterministic("A", "", works("foo")),
        agentic("B", "", prompt=lambda ctx: ctx.results["A"].output),
        agent=agent_writes,
    )
    assert report.nodes[1].output == "foo"


def test_later_nodes_see_each_steps_last_result(sandbox: ScriptedSandbox) -> None:
    def repeat(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        return NodeResult.success(ctx.results["check/test"].status)

    report = run(sandbox, check(FIXED), deterministic("next", "", repeat), agent=agent_writes)
    assert report.nodes[-1].output == "success"


def test_a_nodes_context_is_not_changed_by_later_results(sandbox: ScriptedSandbox) -> None:
    seen: list[RunContext] = []

    def look(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        seen.append(ctx)
        return NodeResult.success()

    run(sandbox, deterministic("a", "", look), deterministic("b", "", look))
    assert [list(ctx.results) for ctx in seen] == [[], ["a"]]
