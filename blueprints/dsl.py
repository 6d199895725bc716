"""The words to write a blueprint with.

rollback = blueprint("rollback", "Undo the last release", [
    preflight("tools", "git is there", has_tools("git")),
    deterministic("revert", "Revert the newest commit", command("git", "revert", "HEAD")),
])

Each word makes a node of its class; `nodes/types.py` and `blueprints/types.py` document the
arguments. All raise `BlueprintInvalid` with the file, the line and the name for wrong ones.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from reprlib import repr as short_repr
from typing import ParamSpec, TypeVar

from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid
from nodes.field_checks import FieldChecks, at, place_of_caller
from nodes.outputs.terms import (
    DEFAULT_CHARS,
    CommentTerms,
    LabelTerms,
    NotifyTerms,
    OpenIssueTerms,
    PullRequestTerms,
    ReviewTerms,
    Target,
    Verdict,
)
from nodes.types import (
    DEFAULT_MAX_TURNS,
    Agentic,
    Compete,
    Deterministic,
    Judge,
    MakePrompt,
    Node,
    Output,
    Parallel,
    Preflight,
    SkipCondition,
    Validate,
    ValidationStep,
    fewest_lines_changed,
)

_Args = ParamSpec("_Args")
_Made = TypeVar("_Made")


def _word(name: str, make: Callable[_Args, _Made]) -> Callable[_Args, _Made]:
    """Return a function that names the node if an argument is missing or unknown."""
    takes = signature(make)

    @wraps(make)
    def word(*args: _Args.args, **kwargs: _Args.kwargs) -> _Made:
        try:
            takes.bind(*args, **kwargs)
        except TypeError as error:
            which = short_repr(args[0] if args else kwargs.get("name"))
            problem = f"{name}({which}, …): {error}"
            raise BlueprintInvalid(at(place_of_caller(), problem)) from error
        return make(*args, **kwargs)

    return word


blueprint = _word("blueprint", Blueprint)
preflight = _word("preflight", Preflight)
deterministic = _word("deterministic", Deterministic)
agentic = _word("agentic", Agentic)
validate = _word("validate", Validate)
step = _word("step", ValidationStep)


def _parallel(
    name: str,
    description: str,
    lanes: Sequence[Sequence[Node]],
    *,
    skip: SkipCondition | None = None,
) -> Parallel:
    """Return a node whose lanes run at the same time, in the same files."""
    return Parallel(name, description, lanes=lanes, skip=skip)


def _compete(  # noqa: PLR0913 - one keyword for each setting that the agents share
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
    place: str = "",
) -> Compete:
    """Return a node in which `n` agents work on forks of the files and the best one wins.

    `agents` are assigned in turn; without them, all use the run's agent. Their nodes are called
    `name-1`, `name-2` and so on. `timeout_s` applies to each of them.
    """
    place = place or place_of_caller()
    checks = FieldChecks("node", name, place)
    checks.count("n", n, least=2)
    checks.each("agents", agents, str, "names of agents")
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
            place=place,
        )
        for number in range(n)
    )
    return Compete(
        name, description, entrants=entrants, steps=steps, judge=judge, skip=skip, place=place
    )


def _comment(
    name: str,
    description: str,
    *,
    on: Target = "issue",
    max_count: int = 1,
    max_chars: int = DEFAULT_CHARS,
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node for comments that an agent proposes, by default the one before."""
    terms = CommentTerms(on=on, max_count=max_count, max_chars=max_chars)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


def _label(
    name: str,
    description: str,
    allowed: Sequence[str],
    *,
    on: Target = "issue",
    max_count: int = 3,
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node for labels that an agent chooses from `allowed`."""
    terms = LabelTerms(allowed=allowed, on=on, max_count=max_count)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


def _open_issue(
    name: str,
    description: str,
    *,
    max_count: int = 1,
    max_chars: int = DEFAULT_CHARS,
    labels: Sequence[str] = (),
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node for new issues that an agent proposes; each gets all `labels`."""
    terms = OpenIssueTerms(max_count=max_count, max_chars=max_chars, labels=labels)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


def _review(
    name: str,
    description: str,
    *,
    verdicts: Sequence[Verdict] = ("comment",),
    max_comments: int = 10,
    max_chars: int = DEFAULT_CHARS,
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node for a review of the pull request that an agent proposes.

    An agent approves nothing unless `verdicts` has "approve".
    """
    terms = ReviewTerms(max_comments=max_comments, max_chars=max_chars, verdicts=verdicts)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


def _notify(
    name: str,
    description: str,
    block: str,
    *,
    max_count: int = 1,
    max_chars: int = DEFAULT_CHARS,
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node for notifications that an agent proposes, sent through a block of Prefect."""
    terms = NotifyTerms(block=block, max_count=max_count, max_chars=max_chars)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


def _pull_request(
    name: str,
    description: str,
    *,
    draft: bool = True,
    max_chars: int = DEFAULT_CHARS,
    by: str | None = None,
    required: bool = False,
    skip: SkipCondition | None = None,
) -> Output:
    """Return a node that pushes the run's work and opens its pull request, if an agent proposes
    title and text. `--push` is not needed."""
    terms = PullRequestTerms(draft=draft, max_chars=max_chars)
    return Output(name, description, terms=terms, by=by, required=required, skip=skip)


parallel = _word("parallel", _parallel)
compete = _word("compete", _compete)
comment = _word("comment", _comment)
label = _word("label", _label)
open_issue = _word("open_issue", _open_issue)
review = _word("review", _review)
notify = _word("notify", _notify)
pull_request = _word("pull_request", _pull_request)
