"""What a blueprint would do: its nodes and the prompts it would give. Nothing is executed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid
from contracts.run import Attempt, NodeResult, NodeType, RunContext
from nodes.types import (
    NODE_TYPES,
    Agentic,
    Compete,
    Node,
    Parallel,
    Validate,
    step_name,
    step_names,
)


@dataclass(frozen=True, kw_only=True)
class DryRunNode:
    """One node as it would run. `prompt` and `allowed_tools` are for agentic nodes only."""

    name: str
    type: NodeType
    description: str
    steps: tuple[str, ...] = ()
    max_retries: int | None = None
    prompt: str | None = None
    allowed_tools: tuple[str, ...] | None = None


def dry_run(blueprint: Blueprint, *, intent: str = "…") -> tuple[DryRunNode, ...]:
    """The nodes in order, prompts rendered as if every node before had succeeded.

    Raises:
        BlueprintInvalid: a prompt cannot be made; names the node.
    """
    ctx = RunContext(run_id="00000000", work_dir="/workspace", intent=intent)
    return tuple(_plan(blueprint.nodes, ctx).nodes)


class _Plan(NamedTuple):
    nodes: list[DryRunNode]
    ctx: RunContext


def _plan(nodes: Sequence[Node], ctx: RunContext) -> _Plan:
    planned: list[DryRunNode] = []
    for node in nodes:
        within = _inside(node, ctx)
        planned += [_planned(node, ctx), *within.nodes]
        ctx = _after([node.name], within.ctx)
    return _Plan(planned, ctx)


def _inside(node: Node, ctx: RunContext) -> _Plan:
    """The nodes in a node, and the context with what those leave behind that always run."""
    match node:
        case Validate():
            fix = _planned(node.on_failure, _failing(node, ctx))
            return _Plan([fix], _after(step_names(node), ctx))
        case Compete():
            entrants = [_planned(entrant, ctx) for entrant in node.entrants]
            names = (*(entrant.name for entrant in node.entrants), *step_names(node))
            return _Plan(entrants, _after(names, ctx))
        case Parallel():
            lanes = [_plan(lane, ctx) for lane in node.lanes]
            for lane in lanes:
                ctx = replace(ctx, results={**ctx.results, **lane.ctx.results})
            return _Plan([found for lane in lanes for found in lane.nodes], ctx)
        case _:
            return _Plan([], ctx)


def _after(names: Iterable[str], ctx: RunContext) -> RunContext:
    for name in names:
        ctx = ctx.with_result(name, NodeResult.success(f"[output of {name}]"))
    return ctx


def _planned(node: Node, ctx: RunContext) -> DryRunNode:
    return DryRunNode(
        name=node.name,
        type=NODE_TYPES[type(node)],
        description=node.description,
        steps=_steps(node),
        max_retries=node.max_retries if isinstance(node, Validate) else None,
        prompt=_prompt(node, ctx) if isinstance(node, Agentic) else None,
        allowed_tools=node.allowed_tools if isinstance(node, Agentic) else None,
    )


def _steps(node: Node) -> tuple[str, ...]:
    return tuple(s.name for s in node.steps) if isinstance(node, Validate | Compete) else ()


def _prompt(node: Agentic, ctx: RunContext) -> str:
    try:
        return node.prompt(ctx)
    except (Exception, SystemExit) as error:  # the author's code: anything may come
        raise BlueprintInvalid(
            f"the prompt of node {node.name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error


def _failing(node: Validate, ctx: RunContext) -> RunContext:
    results = {step.name: NodeResult.failure("failed", f"[{step.name}]") for step in node.steps}
    for name, result in results.items():
        ctx = ctx.with_result(step_name(node, name), result)
    failure = NodeResult(
        status="failure",
        error="failed",
        output=f"[output of {node.name}]",
        attempts=(Attempt(number=1, steps=results),),
    )
    return ctx.with_result(node.name, failure)
