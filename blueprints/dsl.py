"""The words a blueprint is written in.

rollback = blueprint("rollback", "Undo the last release", [
    preflight("tools", "git is there", has_tools("git")),
    deterministic("revert", "Revert the newest commit", command("git", "revert", "HEAD")),
])
"""

from collections.abc import Mapping, Sequence

from blueprints.types import Blueprint
from nodes.types import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_MAX_TURNS,
    Agentic,
    Compete,
    Deterministic,
    Judge,
    MakePrompt,
    Node,
    NodeFunction,
    Parallel,
    Preflight,
    SkipCondition,
    Validate,
    ValidationStep,
    fewest_lines_changed,
)


def blueprint(
    name: str,
    description: str,
    nodes: Sequence[Node],
    *,
    options: Mapping[str, str] | None = None,
    egress: Sequence[str] = (),
    changes: Sequence[str] = (),
    verdict_later: bool = False,
    needs_intent: bool = False,
) -> Blueprint:
    """A blueprint; `options` maps each name that `--set` may give to what it means.

    `egress` names hosts that its commands must reach; without it there is no network. `changes`
    are patterns of protected files, such as `*.lock`, that it is there to change.
    `verdict_later`: whether a run helped shows only later, so that playbooks wait for the word.
    `needs_intent`: a run without an intent is refused before anything begins.
    """
    return Blueprint(
        name=name,
        description=description,
        nodes=tuple(nodes),
        options=tuple((options or {}).items()),
        egress=tuple(egress),
        changes=tuple(changes),
        verdict_later=verdict_later,
        needs_intent=needs_intent,
    )


def preflight(
    name: str,
    description: str,
    check: NodeFunction,
    *,
    skip: SkipCondition | None = None,
    timeout_s: float | None = None,
) -> Preflight:
    """A node that checks whether everything is there."""
    return Preflight(
        name=name, description=description, check=check, skip=skip, timeout_s=timeout_s
    )


def deterministic(
    name: str,
    description: str,
    exec: NodeFunction,  # noqa: A002 - the word blueprints are written with
    *,
    skip: SkipCondition | None = None,
    timeout_s: float | None = None,
) -> Deterministic:
    """A node that runs exact commands."""
    return Deterministic(
        name=name, description=description, exec=exec, skip=skip, timeout_s=timeout_s
    )


def agentic(  # noqa: PLR0913 - one keyword for each field an agentic node has
    name: str,
    description: str,
    *,
    prompt: MakePrompt,
    agent: str | None = None,
    model: str | None = None,
    allowed_tools: Sequence[str] | None = None,
    max_turns: int = DEFAULT_MAX_TURNS,
    max_tokens: int | None = None,
    skip: SkipCondition | None = None,
    timeout_s: float | None = None,
) -> Agentic:
    """A node that an agent does; `agent` and `model` default to the run's own."""
    return Agentic(
        name=name,
        description=description,
        prompt=prompt,
        agent=agent,
        model=model,
        allowed_tools=None if allowed_tools is None else tuple(allowed_tools),
        max_turns=max_turns,
        max_tokens=max_tokens,
        skip=skip,
        timeout_s=timeout_s,
    )


def step(name: str, exec: NodeFunction) -> ValidationStep:  # noqa: A002 - the word blueprints are written with
    """One check of a validate node."""
    return ValidationStep(name=name, exec=exec)


def validate(
    name: str,
    description: str,
    *,
    steps: Sequence[ValidationStep],
    on_failure: Agentic,
    max_retries: int = DEFAULT_MAX_RETRIES,
    skip: SkipCondition | None = None,
    timeout_s: float | None = None,
) -> Validate:
    """A node that runs checks and lets an agent fix what fails, at most `max_retries` times."""
    return Validate(
        name=name,
        description=description,
        steps=tuple(steps),
        on_failure=on_failure,
        max_retries=max_retries,
        skip=skip,
        timeout_s=timeout_s,
    )


def parallel(
    name: str,
    description: str,
    lanes: Sequence[Sequence[Node]],
    *,
    skip: SkipCondition | None = None,
) -> Parallel:
    """Nodes beside each other, in lanes of their own order; all work in the same files."""
    return Parallel(name=name, description=description, lanes=tuple(map(tuple, lanes)), skip=skip)


def compete(  # noqa: PLR0913 - one keyword for each thing that the agents share
    name: str,
    description: str,
    n: int = 2,
    *,
    prompt: MakePrompt,
    steps: Sequence[ValidationStep],
    agents: Sequence[str] = (),
    judge: Judge = fewest_lines_changed,
    allowed_tools: Sequence[str] | None = None,
    max_turns: int = DEFAULT_MAX_TURNS,
    max_tokens: int | None = None,
    skip: SkipCondition | None = None,
    timeout_s: float | None = None,
) -> Compete:
    """`n` agents do the same, each in a fork of the files; the best that passes the steps wins.

    `agents` are taken in turn, the run's own when there are none. The agents are nodes called
    `name-1`, `name-2` …; `timeout_s` is for each of them.
    """
    entrants = tuple(
        agentic(
            f"{name}-{number + 1}",
            description,
            prompt=prompt,
            agent=agents[number % len(agents)] if agents else None,
            allowed_tools=allowed_tools,
            max_turns=max_turns,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
        )
        for number in range(n)
    )
    return Compete(
        name=name,
        description=description,
        entrants=entrants,
        steps=tuple(steps),
        judge=judge,
        skip=skip,
    )
