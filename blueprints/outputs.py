"""Connects the output nodes of a blueprint with the agents that propose."""

from collections.abc import Sequence
from dataclasses import replace

from nodes.outputs.form import ProposingPrompt
from nodes.outputs.terms import PullRequestTerms
from nodes.types import Agentic, Node, Output, inner_nodes


def connected(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with each output's agent entered, and the form in that agent's prompt.

    Raises:
        BlueprintInvalid: an output node has no agent before it, names none, stands in a lane, or is
            a second pull request.
    """
    done: list[Node] = []
    for node in nodes:
        for inner in inner_nodes(node):
            if isinstance(inner, Output):
                raise inner.checks.invalid("stands in a lane: outputs stand at the top level")
        done.append(replace(node, by=_agent_of(node, done)) if isinstance(node, Output) else node)
    outputs = [node for node in done if isinstance(node, Output)]
    for second in [one for one in outputs if isinstance(one.terms, PullRequestTerms)][1:]:
        raise second.checks.invalid("is a second pull_request: a run opens one")
    return tuple(
        _proposing(node, [one for one in outputs if one.by == node.name])
        if isinstance(node, Agentic)
        else node
        for node in done
    )


def _agent_of(node: Output, before: Sequence[Node]) -> str:
    agents = [one.name for one in before if isinstance(one, Agentic)]
    if node.by is None and agents:
        return agents[-1]
    if node.by is None or node.by not in agents:
        named = f"by={node.by!r}, which is" if node.by is not None else "a place with"
        known = ", ".join(agents) or "none"
        raise node.checks.invalid(
            f"has {named} no agentic node before it: an agent must propose first; known: {known}"
        )
    return node.by


def _proposing(node: Agentic, outputs: Sequence[Output]) -> Agentic:
    own = node.prompt.prompt if isinstance(node.prompt, ProposingPrompt) else node.prompt
    return replace(node, prompt=ProposingPrompt(own, tuple(outputs)) if outputs else own)
