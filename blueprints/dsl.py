"""The words to write a blueprint with.

rollback = blueprint("rollback", "Undo the last release", [
    preflight("tools", "git is there", has_tools("git")),
    deterministic("revert", "Revert the newest commit", command("git", "revert", "HEAD")),
])

Each word is the class of its node; `nodes/types.py` and `blueprints/types.py` document the
arguments. `parallel` and `compete` are functions.
"""

from collections.abc import Sequence

from blueprints.types import Blueprint
from nodes.types import (
    DEFAULT_MAX_TURNS,
    Agentic,
    Compete,
    Deterministic,
    Judge,
    MakePrompt,
    Node,
    Parallel,
    Preflight,
    SkipCondition,
    Validate,
    ValidationStep,
    fewest_lines_changed,
)

blueprint = Blueprint
preflight = Preflight
deterministic = Deterministic
agentic = Agentic
validate = Validate
step = ValidationStep


def parallel(
    name: str,
    description: str,
    lanes: Sequence[Sequence[Node]],
    *,
    skip: SkipCondition | None = None,
) -> Parallel:
    """Return a node whose lanes run at the same time, in the same files."""
    return Parallel(name, description, lanes=tuple(map(tuple, lanes)), skip=skip)


def compete(  # noqa: PLR0913 - one keyword for each setting that the agents share
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
    """Return a node in which `n` agents work on forks of the files and the best one wins.

    `agents` are assigned in turn; without them, all use the run's agent. Their nodes are called
    `name-1`, `name-2` and so on. `timeout_s` applies to each of them.
    """
    entrants = tuple(
        Agentic(
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
    return Compete(name, description, entrants=entrants, steps=tuple(steps), judge=judge, skip=skip)
