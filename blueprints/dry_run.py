"""The dry run of a blueprint: its nodes and the prompts of its agents. Nothing is executed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from reprlib import repr as short_repr
from typing import TypeVar, cast

from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid, HarnessError
from contracts.run import Attempt, NodeResult, NodeType, RunContext
from nodes.field_checks import at
from nodes.outputs.form import permits
from nodes.text import one_line
from nodes.types import (
    NODE_TYPES,
    Agentic,
    Compete,
    Node,
    Output,
    Parallel,
    SkipCondition,
    Validate,
    step_name,
    step_names,
)

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class DryRunNode:
    """One node as it would run. Only agentic nodes have `prompt` and `allowed_tools`, only output
    nodes `permits`.

    `needs_options` is why the prompt cannot be made in a run without `--set`.
    """

    name: str
    type: NodeType
    description: str
    steps: tuple[str, ...] = ()
    max_retries: int | None = None
    prompt: str | None = None
    allowed_tools: Sequence[str] | None = None
    needs_options: str | None = None
    permits: str | None = None


def dry_run(blueprint: Blueprint, *, intent: str = "…") -> tuple[DryRunNode, ...]:
    """Return the nodes in order, with prompts rendered as if all earlier nodes had succeeded.

    Prompts and `skip` are tried with several contexts: one must do, since no sample can be like
    every real result.

    Raises:
        BlueprintInvalid: a prompt or `skip` raises with every context, a prompt returns no text,
            or a node is never reached; the message names the file, the line and the node.
    """
    ctx = RunContext(run_id="00000000", work_dir="/workspace", intent=intent)
    nodes, _ = _dry_run_nodes(blueprint.nodes, ctx, tuple(blueprint.options))
    return tuple(nodes)


def _dry_run_nodes(
    nodes: Sequence[Node], ctx: RunContext, options: Sequence[str]
) -> tuple[list[DryRunNode], RunContext]:
    found: list[DryRunNode] = []
    for node in nodes:
        inner, after = _inside(node, ctx, options)
        found += [_dry_run_node(node, ctx, options), *inner]
        ctx = _with_outputs([node.name], after)
    return found, ctx


def _inside(
    node: Node, ctx: RunContext, options: Sequence[str]
) -> tuple[list[DryRunNode], RunContext]:
    """Return a node's inner nodes, and the context with the results that they always leave."""
    match node:
        case Validate():
            fix = _dry_run_node(node.on_failure, _with_failure(node, ctx), options)
            return [fix], _with_outputs(step_names(node), ctx)
        case Compete():
            entrants = [_dry_run_node(entrant, ctx, options) for entrant in node.entrants]
            names = (*(entrant.name for entrant in node.entrants), *step_names(node))
            return entrants, _with_outputs(names, ctx)
        case Parallel():
            lanes = [_dry_run_nodes(lane, ctx, options) for lane in node.lanes]
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


def _dry_run_node(node: Node, ctx: RunContext, options: Sequence[str]) -> DryRunNode:
    _check_reached(node, ctx, options)
    steps = node.steps if isinstance(node, Validate | Compete) else ()
    return DryRunNode(
        name=node.name,
        type=NODE_TYPES[type(node)],
        description=node.description,
        steps=tuple(step.name for step in steps),
        max_retries=node.max_retries if isinstance(node, Validate) else None,
        prompt=_prompt(node, ctx, options) if isinstance(node, Agentic) else None,
        allowed_tools=node.allowed_tools if isinstance(node, Agentic) else None,
        needs_options=_needs_options(node, ctx, options) if isinstance(node, Agentic) else None,
        permits=permits(node.terms) if isinstance(node, Output) else None,
    )


def _check_reached(node: Node, ctx: RunContext, options: Sequence[str]) -> None:
    if isinstance(node, Validate) and node.max_retries == 0:
        raise node.checks.invalid(
            f"has max_retries=0, so its agent {node.on_failure.name!r} is never reached: make the "
            "check a deterministic node, or allow a retry"
        )
    if node.skip is None:
        return
    _try(node, "skip", node.skip, ctx, options)
    if _is_always_true(node.skip):
        raise node.checks.invalid("is never reached: its skip is true in every run")


def _is_always_true(skip: SkipCondition) -> bool:
    """Return True if a condition is true although it was given nothing to look at."""
    try:
        return bool(skip(cast("RunContext", object())))
    except Exception:  # noqa: BLE001 - a blueprint's own code raises anything without its context
        return False


def _prompt(node: Agentic, ctx: RunContext, options: Sequence[str]) -> str:
    prompts = _try(node, "the prompt", node.prompt, ctx, options)
    for prompt in prompts:
        if not isinstance(prompt, str):
            raise node.checks.invalid(f"has a prompt that returns {short_repr(prompt)}, not text")
        node.checks.text("prompt", prompt)
    return prompts[0]


def _needs_options(node: Agentic, ctx: RunContext, options: Sequence[str]) -> str | None:
    without, given, *_ = _samples(ctx, options)
    error = _error_of(node.prompt, without)
    return _said(error) if error and not _error_of(node.prompt, given) else None


def _try(
    node: Node,
    what: str,
    function: Callable[[RunContext], _T],
    ctx: RunContext,
    options: Sequence[str],
) -> list[_T]:
    """Return the results of all samples with which the function does not raise."""
    samples = _samples(ctx, options)
    errors = [_error_of(function, sample) for sample in samples]
    if first := errors[0] if all(errors) else None:
        problem = f"{what} of node {node.name!r} fails: {_said(first)}"
        raise BlueprintInvalid(at(node.place, problem)) from first
    good = (sample for sample, error in zip(samples, errors, strict=True) if error is None)
    return [function(sample) for sample in good]


def _error_of(
    function: Callable[[RunContext], object], sample: RunContext
) -> Exception | SystemExit | None:
    try:
        function(sample)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a blueprint's code can raise anything
        return error
    return None


def _said(error: BaseException) -> str:
    kind = "" if isinstance(error, HarnessError) else f"{type(error).__name__}: "
    return one_line(f"{kind}{error}", 500)


def _samples(ctx: RunContext, options: Sequence[str]) -> list[RunContext]:
    """Return contexts like those of a real run; the first one is shown to the user."""
    given = replace(ctx, options=dict.fromkeys(options, "1"))
    digits = {name: replace(result, output="1") for name, result in ctx.results.items()}
    return [ctx, given, replace(given, results=digits), replace(given, intent="", push=True)]
