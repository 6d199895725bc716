"""How one node is executed, and the validate loop, with plain functions around it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from time import sleep
from typing import cast

import pytest

from contracts.errors import NodeBroken
from contracts.run import NodeResult, NodeStatus, RunContext
from contracts.sandbox import Sandbox
from nodes.execute import execute_node
from nodes.types import (
    Agentic,
    Deterministic,
    Node,
    NodeFunction,
    Preflight,
    Validate,
    ValidationStep,
)
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import LONG_S
from tests.support.workspace import context

OK = NodeResult.success("ok")
BAD = NodeResult.failure("bad", "the output of what failed")


class Runner:
    """Runs nodes as the engine would, and keeps what it was asked for."""

    def __init__(self, sandbox: ScriptedSandbox, fix: NodeResult = OK) -> None:
        self.sandbox = sandbox
        self.fix = fix
        self.ran: list[str] = []
        self.seen: list[RunContext] = []
        self.limits: list[float | None] = []

    def __call__(self, node: Node, ctx: RunContext | None = None) -> NodeResult:
        ctx = ctx or context(self.sandbox)
        self.ran.append(node.name)
        self.limits.append(node.timeout_s)
        return execute_node(
            node,
            ctx,
            sandbox=self.sandbox,
            run_agent=self.agent,
            run_node=self.__call__,
            run_lanes=self.__call__,
        )

    def agent(self, node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        self.seen.append(ctx)
        return self.fix


def always(result: NodeResult) -> NodeFunction:
    return lambda ctx, sandbox: result


def in_turn(*results: NodeResult) -> NodeFunction:
    """Gives the results one after the other, the last one for ever."""
    left: Iterator[NodeResult] = chain(results, repeat(results[-1]))
    return lambda ctx, sandbox: next(left)


def check(*steps: ValidationStep, max_retries: int = 2, timeout_s: float | None = None) -> Validate:
    fix = Agentic(name="fix", description="", prompt=lambda ctx: "fix it")
    return Validate(
        name="check",
        description="",
        steps=steps,
        on_failure=fix,
        max_retries=max_retries,
        timeout_s=timeout_s,
    )


def test_a_preflight_node_returns_the_result_of_its_check(sandbox: ScriptedSandbox) -> None:
    node = Preflight(name="a", description="", check=always(BAD))
    assert replace(Runner(sandbox)(node), duration_ms=0) == BAD


def test_a_deterministic_node_returns_the_result_of_its_function(sandbox: ScriptedSandbox) -> None:
    node = Deterministic(name="a", description="", exec=always(OK))
    assert replace(Runner(sandbox)(node), duration_ms=0) == OK


def test_an_agentic_node_returns_the_result_of_its_agent(sandbox: ScriptedSandbox) -> None:
    node = Agentic(name="a", description="", prompt=lambda ctx: "")
    done = NodeResult.success("agent done")
    assert Runner(sandbox, fix=done)(node).output == "agent done"


@pytest.mark.parametrize("given", [None, "ok", NodeResult(status=cast("NodeStatus", "fine"))])
def test_another_return_value_is_refused(sandbox: ScriptedSandbox, given: object) -> None:
    node = Deterministic(name="a", description="", exec=always(cast("NodeResult", given)))
    with pytest.raises(
        NodeBroken, match=r"node 'a' .* returned .*, which is no NodeResult: return Node"
    ):
        Runner(sandbox)(node)


def test_the_duration_of_a_node_is_measured(sandbox: ScriptedSandbox) -> None:
    def slow(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        sleep(0.02)
        return OK

    assert Runner(sandbox)(Deterministic(name="a", description="", exec=slow)).duration_ms >= 20


def test_steps_that_pass_need_no_fix(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(check(ValidationStep(name="test", exec=always(OK))))
    assert run.ran == ["check", "check/test (attempt 1)"]


def test_all_steps_run_although_the_first_one_fails(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(
        check(
            ValidationStep(name="a", exec=always(BAD)),
            ValidationStep(name="b", exec=always(OK)),
            max_retries=0,
        )
    )
    assert run.ran == ["check", "check/a (attempt 1)", "check/b (attempt 1)"]


def test_after_a_fix_all_steps_run_again(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(
        check(
            ValidationStep(name="a", exec=in_turn(BAD, OK)),
            ValidationStep(name="b", exec=always(OK)),
        )
    )
    assert run.ran[3:] == ["fix (attempt 1)", "check/a (attempt 2)", "check/b (attempt 2)"]


def test_by_default_steps_run_up_to_three_times(sandbox: ScriptedSandbox) -> None:
    result = Runner(sandbox)(check(ValidationStep(name="test", exec=always(BAD))))
    assert [attempt.number for attempt in result.attempts] == [1, 2, 3]


def test_no_fix_follows_the_last_round(sandbox: ScriptedSandbox) -> None:
    result = Runner(sandbox)(check(ValidationStep(name="test", exec=always(BAD))))
    assert [attempt.fix is not None for attempt in result.attempts] == [True, True, False]


def test_without_retries_nothing_is_fixed(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(check(ValidationStep(name="test", exec=always(BAD)), max_retries=0))
    assert "fix (attempt 1)" not in run.ran


def test_exhausted_retries_name_the_failing_step(sandbox: ScriptedSandbox) -> None:
    result = Runner(sandbox)(check(ValidationStep(name="test", exec=always(BAD))))
    assert result.error == "test still failed after 3 attempts of 3"


def test_steps_run_again_after_a_failed_fix(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox, fix=BAD)
    result = run(check(ValidationStep(name="test", exec=in_turn(BAD, OK))))
    assert result.status == "success"


def test_the_fix_sees_the_failed_output(
    sandbox: ScriptedSandbox,
) -> None:
    run = Runner(sandbox)
    run(check(ValidationStep(name="test", exec=in_turn(BAD, OK))))
    assert "the output of what failed" in run.seen[0].results["check"].output


def test_the_fix_sees_each_steps_result(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(
        check(
            ValidationStep(name="a", exec=in_turn(BAD, OK)),
            ValidationStep(name="b", exec=always(OK)),
        )
    )
    statuses = [run.seen[0].results[f"check/{name}"].status for name in ("a", "b")]
    assert statuses == ["failure", "success"]


def test_each_fix_sees_the_newest_failure(sandbox: ScriptedSandbox) -> None:
    first, second = NodeResult.failure("e", "first"), NodeResult.failure("e", "second")
    run = Runner(sandbox)
    run(check(ValidationStep(name="test", exec=in_turn(first, second, OK))))
    assert [ctx.results["check/test"].output for ctx in run.seen] == ["first", "second"]


def test_a_skipped_step_is_no_failure(sandbox: ScriptedSandbox) -> None:
    result = Runner(sandbox)(check(ValidationStep(name="test", exec=always(NodeResult.skipped()))))
    assert result.status == "success"


def test_rounds_share_the_time_limit_of_the_node(sandbox: ScriptedSandbox) -> None:
    run = Runner(sandbox)
    run(check(ValidationStep(name="test", exec=in_turn(BAD, OK)), timeout_s=LONG_S))
    assert all(limit is not None and limit <= LONG_S for limit in run.limits)


def test_no_round_starts_after_the_time_limit(sandbox: ScriptedSandbox) -> None:
    def slow(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        sleep(0.05)
        return BAD

    result = Runner(sandbox)(check(ValidationStep(name="test", exec=slow), timeout_s=0.01))
    assert len(result.attempts) == 1


@pytest.mark.parametrize("timeout_s", [LONG_S, 0.01])
def test_steps_share_the_time_limit_of_the_node(sandbox: ScriptedSandbox, timeout_s: float) -> None:
    def slow(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        sleep(0.05)
        return OK

    run = Runner(sandbox)
    result = run(
        check(
            ValidationStep(name="a", exec=slow),
            ValidationStep(name="b", exec=slow),
            timeout_s=timeout_s,
        )
    )
    if timeout_s == LONG_S:
        _, first, second = run.limits
        assert first is not None
        assert second is not None
        assert second <= first - 0.05
    else:
        second_step = result.attempts[0].steps["b"]
        assert second_step.error == "not started: the time limit of 0.01 s for all attempts is over"
        assert (result.status, "check/b (attempt 1)" in run.ran) == ("failure", False)


def test_exceptions_of_a_node_are_not_caught(sandbox: ScriptedSandbox) -> None:
    def broken(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        Runner(sandbox)(check(ValidationStep(name="test", exec=broken)))
