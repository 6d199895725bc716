"""How one node is executed. The validate loop lives here, once."""

from collections.abc import Callable
from dataclasses import replace
from reprlib import repr as shortly
from time import monotonic
from typing import assert_never, get_args

from contracts.errors import NodeBroken
from contracts.names import attempt_name
from contracts.run import Attempt, NodeResult, NodeStatus, RunContext
from contracts.sandbox import Sandbox
from nodes.text import truncate_middle
from nodes.types import (
    Agentic,
    Compete,
    Deterministic,
    Node,
    Parallel,
    Preflight,
    Validate,
    step_name,
)

RunNode = Callable[[Node, RunContext], NodeResult]
"""Runs one node of any type; a validate node asks it for its steps and fixes."""

RunLanes = Callable[[Parallel | Compete, RunContext], NodeResult]
"""Runs the nodes that stand beside each other in a node."""

RunAgent = Callable[[Agentic, RunContext, Sandbox], NodeResult]
"""Lets an agent do an agentic node."""

_NO_TIME = "not begun: the {:g} s that all attempts may take were over"


def execute_node(
    node: Node,
    ctx: RunContext,
    *,
    sandbox: Sandbox,
    run_agent: RunAgent,
    run_node: RunNode,
    run_lanes: RunLanes,
) -> NodeResult:
    """Execute one node and give its result, with the time it took.

    What the node's own function raises is not caught: it is an outage or a bug.

    Raises:
        NodeBroken: what the function gave is no result.
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
        case _:
            assert_never(node)
    result = _checked(node.name, result)
    return replace(result, duration_ms=round((monotonic() - started) * 1000))


def _checked(node: str, given: object) -> NodeResult:
    if isinstance(given, NodeResult) and given.status in get_args(NodeStatus):
        return given
    raise NodeBroken(
        f"node {node!r} of the blueprint gave {shortly(given)}, which is no result: "
        "return NodeResult.success(…) or NodeResult.failure(…)"
    )


def _validate(node: Validate, ctx: RunContext, run_node: RunNode) -> NodeResult:
    deadline = None if node.timeout_s is None else monotonic() + node.timeout_s
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, node.max_retries + 2):
        attempt = _run_steps(node, ctx, run_node, number=number, deadline=deadline)
        result = _verdict(node, (*attempts, attempt))
        if result.status == "success" or number > node.max_retries or _is_over(deadline):
            return result
        fix = replace(
            node.on_failure,
            name=attempt_name(node.on_failure.name, number),
            timeout_s=_shorter(node.on_failure.timeout_s, _left(deadline)),
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
            results[step.name] = NodeResult.failure(_NO_TIME.format(node.timeout_s))
            continue
        inner = Deterministic(
            name=attempt_name(step_name(node, step.name), number),
            description=node.description,
            exec=step.exec,
            timeout_s=_left(deadline),
        )
        results[step.name] = run_node(inner, ctx)
    return Attempt(number=number, steps=results)


def with_step_results(ctx: RunContext, node: Validate, attempt: Attempt) -> RunContext:
    """The context with the results of an attempt's steps, as later nodes find them."""
    for name, result in attempt.steps.items():
        ctx = ctx.with_result(step_name(node, name), result)
    return ctx


def _verdict(node: Validate, attempts: tuple[Attempt, ...]) -> NodeResult:
    failed = {n: r for n, r in attempts[-1].steps.items() if r.status == "failure"}
    rounds = f"{len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
    if not failed:
        return NodeResult(
            status="success",
            output=f"{', '.join(attempts[-1].steps)}: passed after {rounds}",
            attempts=attempts,
        )
    details = (f"## {name}\n{r.error or 'failed'}\n\n{r.output}" for name, r in failed.items())
    return NodeResult(
        status="failure",
        error=f"{', '.join(failed)} still failed after {rounds} of {node.max_retries + 1}",
        output=truncate_middle("\n\n".join(details)),
        attempts=attempts,
    )


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and monotonic() >= deadline


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - monotonic(), 0.001)


def _shorter(own: float | None, left: float | None) -> float | None:
    return left if own is None else own if left is None else min(own, left)
