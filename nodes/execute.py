"""Execute one node. `_validate` is the loop of steps and fixes."""

from collections.abc import Callable
from dataclasses import replace
from reprlib import repr as short_repr
from time import monotonic
from typing import assert_never, get_args

from contracts.errors import NodeBroken
from contracts.run import Attempt, NodeResult, NodeStatus, RunContext, attempt_name
from contracts.sandbox import Sandbox
from nodes.outputs.proposals import proposed_result
from nodes.text import truncate_middle
from nodes.types import (
    Agentic,
    Compete,
    Deterministic,
    Node,
    Output,
    Parallel,
    Preflight,
    Validate,
    step_name,
)

RunNode = Callable[[Node, RunContext], NodeResult]
"""Run a node of any type. A validate node calls it for its steps and fixes."""

RunLanes = Callable[[Parallel | Compete, RunContext], NodeResult]
"""Run the inner nodes of a parallel or compete node."""

RunAgent = Callable[[Agentic, RunContext, Sandbox], NodeResult]
"""Run an agentic node with its agent."""


def execute_node(
    node: Node,
    ctx: RunContext,
    *,
    sandbox: Sandbox,
    run_agent: RunAgent,
    run_node: RunNode,
    run_lanes: RunLanes,
) -> NodeResult:
    """Execute one node and return its result with the duration.

    Exceptions of the node's own function are not caught: they are outages or bugs.

    Raises:
        NodeBroken: the function returned no `NodeResult`.
    """
    started = monotonic()
    match node:
        case Preflight():
            result = node.check(ctx, sandbox)
        case Deterministic():
            result = node.exec(ctx, sandbox)
        case Agentic():
            result = run_agent(node, ctx, sandbox)
        case Validate():
            result = _validate(node, ctx, run_node)
        case Parallel() | Compete():
            result = run_lanes(node, ctx)
        case Output():
            result = proposed_result(node, ctx)
        case _:
            assert_never(node)
    result = _checked(node.name, result)
    return replace(result, duration_ms=round((monotonic() - started) * 1000))


def _checked(node: str, value: object) -> NodeResult:
    if isinstance(value, NodeResult) and value.status in get_args(NodeStatus):
        return value
    raise NodeBroken(
        f"node {node!r} of the blueprint returned {short_repr(value)}, which is no NodeResult: "
        "return NodeResult.success(…) or NodeResult.failure(…)"
    )


def _validate(node: Validate, ctx: RunContext, run_node: RunNode) -> NodeResult:
    deadline = None if node.timeout_s is None else monotonic() + node.timeout_s
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, node.max_retries + 2):
        attempt = _run_steps(node, ctx, run_node, number=number, deadline=deadline)
        result = _result_of(node, (*attempts, attempt))
        if result.status == "success" or number > node.max_retries or _is_over(deadline):
            return result
        limits_s = (node.on_failure.timeout_s, _left_s(deadline))
        fix = replace(
            node.on_failure,
            name=attempt_name(node.on_failure.name, number),
            timeout_s=min((limit for limit in limits_s if limit is not None), default=None),
        )
        fixed = run_node(fix, with_step_results(ctx, node, attempt).with_result(node.name, result))
        attempts = (*attempts, replace(attempt, fix=fixed))
    raise AssertionError("the loop above always returns")


def _run_steps(
    node: Validate, ctx: RunContext, run_node: RunNode, *, number: int, deadline: float | None
) -> Attempt:
    results: dict[str, NodeResult] = {}
    for step in node.steps:
        if _is_over(deadline):
            error = f"not started: the time limit of {node.timeout_s:g} s for all attempts is over"
            results[step.name] = NodeResult.failure(error)
            continue
        check = Deterministic(
            attempt_name(step_name(node, step.name), number),
            node.description,
            step.exec,
            timeout_s=_left_s(deadline),
        )
        results[step.name] = run_node(check, ctx)
    return Attempt(number=number, steps=results)


def with_step_results(ctx: RunContext, node: Validate, attempt: Attempt) -> RunContext:
    """Return the context with the results of an attempt's steps, as `node/step`."""
    for name, result in attempt.steps.items():
        ctx = ctx.with_result(step_name(node, name), result)
    return ctx


def _result_of(node: Validate, attempts: tuple[Attempt, ...]) -> NodeResult:
    steps = attempts[-1].steps
    failed = {name: result for name, result in steps.items() if result.status == "failure"}
    rounds = f"{len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
    tests = next((result.tests for result in steps.values() if result.tests is not None), None)
    if not failed:
        output = f"{', '.join(steps)}: passed after {rounds}"
        return NodeResult(status="success", output=output, attempts=attempts, tests=tests)
    details = (f"## {name}\n{r.error or 'failed'}\n\n{r.output}" for name, r in failed.items())
    return NodeResult(
        status="failure",
        error=f"{', '.join(failed)} still failed after {rounds} of {node.max_retries + 1}",
        output=truncate_middle("\n\n".join(details)),
        attempts=attempts,
        tests=tests,
    )


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and monotonic() >= deadline


def _left_s(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - monotonic(), 0.001)
