"""The dry run of a blueprint: its nodes and the prompts of its agents. Nothing is executed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
    """One node as it would run. Only agentic nodes have `prompt` and `allowed_tools`."""

    name: str
    type: NodeType
    description: str
    steps: tuple[str, ...] = ()
    max_retries: int | None = None
    prompt: str | None = None
    allowed_tools: Sequence[str] | None = None


def dry_run(blueprint: Blueprint, *, intent: str = "…") -> tuple[DryRunNode, ...]:
    """Return the nodes in order, with prompts rendered as if all earlier nodes had succeeded.

    Raises:
        BlueprintInvalid: a prompt raises an error; the message names the node.
    """
    ctx = RunContext(run_id="00000000", work_dir="/workspace", intent=intent)
    nodes, _ = _dry_run_nodes(blueprint.nodes, ctx)
    return tuple(nodes)


def _dry_run_nodes(nodes: Sequence[Node], ctx: RunContext) -> tuple[list[DryRunNode], RunContext]:
    found: list[DryRunNode] = []
    for node in nodes:
        inner, after = _inside(node, ctx)
        found += [_dry_run_node(node, ctx), *inner]
        ctx = _with_outputs([node.name], after)
    return found, ctx


def _inside(node: Node, ctx: RunContext) -> tuple[list[DryRunNode], RunContext]:
    """Return a node's inner nodes, and the context with the results that they always leave."""
    match node:
        case Validate():
            fix = _dry_run_node(node.on_failure, _with_failure(node, ctx))
            return [fix], _with_outputs(step_names(node), ctx)
        case Compete():
            entrants = [_dry_run_node(entrant, ctx) for entrant in node.entrants]
            names = (*(entrant.name for entrant in node.entrants), *step_names(node))
            return entrants, _with_outputs(names, ctx)
        case Parallel():
            lanes = [_dry_run_nodes(lane, ctx) for lane in node.lanes]
            for _, after in lanes:
                # All lanes were rendered before this, so that they do not see each other.
                ctx = replace(ctx, results={**ctx.results, **after.results})
            return [found for nodes, _ in lanes for found in nodes], ctx
        case _:
            return [], ctx


def _with_outputs(names: Iterable[str], ctx: RunContext) -> RunContext:
    for name in names:
        ctx = ctx.with_result(name, NodeResult.success(f"[output of {name}]"))
    return ctx


def _with_failure(node: Validate, ctx: RunContext) -> RunContext:
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


def _dry_run_node(node: Node, ctx: RunContext) -> DryRunNode:
    steps = node.steps if isinstance(node, Validate | Compete) else ()
    return DryRunNode(
        name=node.name,
        type=NODE_TYPES[type(node)],
        description=node.description,
        steps=tuple(step.name for step in steps),
        max_retries=node.max_retries if isinstance(node, Validate) else None,
        prompt=_prompt(node, ctx) if isinstance(node, Agentic) else None,
        allowed_tools=node.allowed_tools if isinstance(node, Agentic) else None,
    )


def _prompt(node: Agentic, ctx: RunContext) -> str:
    try:
        return node.prompt(ctx)
    except (Exception, SystemExit) as error:  # the blueprint's own code can raise anything
        raise BlueprintInvalid(
            f"the prompt of node {node.name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error
