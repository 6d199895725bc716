"""Rounds after the push: an agent works on because of checks, comments or conflicts.

A round is one more node of the run. Its agent continues the conversation of the agent that worked
last, in the files as they were pushed. What begins one is in `pull_request_loop.py`.
"""

from dataclasses import replace

from contracts.model_access import AgentUsage
from contracts.run import RunContext
from flows.execution.base_merge import merge_node
from flows.runs.checkpoint import Asked, Checkpoint, Round, round_name
from flows.runs.request import ResolvedRequest
from nodes.types import Agentic, Node, Validate, step_names


def with_rounds(request: ResolvedRequest, now: Checkpoint) -> ResolvedRequest:
    """Return the request whose blueprint has an agent for each round, and its own checks again."""
    definition = request.definition
    checks = [node for node in definition.nodes if isinstance(node, Validate)]
    agents = {node.name: node for node in request.agentic_nodes}
    added: list[Node] = []
    for number, one in enumerate(now.rounds, 1):
        if one.asked is None or not one.asked.failed:
            agent = _round_node(agents[one.node], number, one)
            agents[agent.name] = agent
            if one.onto:
                added.append(merge_node(now.base, number))
            added += [agent, *(_check_again(check, number) for check in checks)]
    if not added:
        return request
    longer = replace(definition, nodes=(*definition.nodes, *added))
    return request.changed(definition=longer)


def _round_node(template: Agentic, number: int, one: Round) -> Agentic:
    about = "Answer a comment" if one.asked else "Mend what failed after the push"
    return replace(
        template,
        name=round_name(number),
        description="Resolve conflicts with the base" if one.onto else about,
        prompt=lambda _: one.said,
        skip=None,
    )


def _check_again(check: Validate, number: int) -> Validate:
    """Return the node under a name of this round. Its fix finds the results by their own names."""
    fix = check.on_failure

    def prompt(ctx: RunContext) -> str:
        for own, name in zip(_result_names(check), _result_names(again), strict=True):
            if name in ctx.results:
                ctx = ctx.with_result(own, ctx.results[name])
        return fix.prompt(ctx)

    renamed = replace(fix, name=round_name(number, fix.name), prompt=prompt)
    again = replace(check, name=round_name(number, check.name), on_failure=renamed)
    return again


def _result_names(check: Validate) -> tuple[str, ...]:
    return (check.name, *step_names(check))


def mending_rounds(now: Checkpoint) -> int:
    """Count the rounds about checks, since the last comment whose answer was pushed."""
    commits = [*(one.commit for one in now.rounds), now.pull.commit if now.pull else ""]
    count = 0
    for one, after in reversed(list(zip(now.rounds, commits[1:], strict=True))):
        if one.asked and one.commit != after:
            break
        count += one.asked is None
    return count


def next_round(
    now: Checkpoint,
    node: str,
    said: str,
    heard: dict[str, int],
    *,
    asked: Asked | None = None,
    onto: str = "",
) -> Checkpoint:
    """Return the checkpoint of a run that ended, with one more round to run."""
    name, commit = round_name(len(now.rounds) + 1), now.pull.commit if now.pull else ""
    talk = now.waiting.get(node)
    told = {name: replace(talk, told=said, spent=AgentUsage(), elapsed_s=0.0)} if talk else {}
    return replace(
        now,
        rounds=(*now.rounds, Round(said, node, commit, asked, onto)),
        talks={**now.talks, **told},
        ended=None,
        heard=heard,
    )


def speaker(request: ResolvedRequest, now: Checkpoint) -> str | None:
    """Return the node whose conversation a round continues; None without an agent."""
    names = [node.name for node in request.agentic_nodes]
    spoke = [name for name in names if name in now.waiting]
    return next(iter((spoke or names)[::-1]), None)
