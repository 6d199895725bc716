"""The guard of an agent: each of its tool calls is an operation, decided by the same rules.

What an agent asks for is made of all that it saw. So it works freely inside the sandbox.
Whatever leaves needs an allowed host, a change of a protected file needs `--allow-change` or a
blueprint's `changes`, and everything else needs a person's approval.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from posixpath import basename, normpath
from typing import Annotated
from urllib.parse import unquote

from contracts.entity import EMPTY_LABEL, Entity, Label, derive
from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.tool import Allowed, Decision, Denied, Guard, ToolCall
from policy.authority import Authority
from policy.errors import OperationFailed
from policy.file_labels import folder_patterns, matches_any
from policy.guard.shell_reader import shell_effects
from policy.plan.registry import Registry, operation
from policy.plan.resolve import PolicyContext, StepCall
from policy.plan.step_check import RULES_VERSION, check_step
from policy.types import Plan, PlanStep

SECRET_FILES = (
    ".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc",
    "credentials", "credentials.*", "secrets.*", "*.kdbx", "*.p12",
)  # fmt: skip
"""Files that are taken to hold a secret."""

_PATHS = ("path", "file_path", "notebook_path")
_INSIDE = "WORK_INSIDE"
_LEAVE = "LEAVE"
_GRANTED = frozenset({_INSIDE, _LEAVE})
_MOST_SECRETS = 100
"""Files with secrets that are remembered of one agent: from the first on, nothing leaves."""

MAX_PATH_CHARS = 4_096
"""Characters; Linux opens nothing by a longer one."""

_MOST_NAMED = 10
"""Files that one refusal names."""

_WORKSPACE = "/workspace/"
_HERE = ("localhost", "127.0.0.1")
_ENV_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})


@operation(effect="write", requires=[_INSIDE], place="sandbox")
def work_inside(call: Annotated[object, "content"]) -> Json:
    """Work on files and processes of the sandbox."""
    return _by_the_agent(call)


@operation(effect="write", requires=[_LEAVE])
def change_protected(path: Annotated[object, "authority"]) -> Json:
    """Change a protected file that nothing permits to change."""
    return _by_the_agent(path)


@operation(effect="egress", requires=[_LEAVE])
def reach(host: Annotated[object, "recipient"], data: Annotated[object, "content"]) -> Json:
    """Reach a host outside."""
    return _by_the_agent(host, data)


def _by_the_agent(*_: object) -> Json:
    raise OperationFailed("agents run their tools themselves: these are only decided on here")


_REGISTRY = Registry([work_inside, change_protected, reach])
_SEEN: Json = {"$ref": "input.seen"}


GUARD_VERSION = f"agent-guard/{RULES_VERSION}.3"
"""How decisions of these rules, and of the reading of shell lines, are named in the event log."""


class AgentGuard:
    """Decides about the calls of one agent. Several threads may ask it.

    `word_of` gives the word of `allowed.py` that a tool falls under. What the agent has seen
    only grows: a secret that it read stays with it. `read` are those of before.
    """

    def __init__(
        self,
        bounds: GuardBounds,
        tool_kind: Callable[[str], str | None],
        secrets_read: Iterable[str] = (),
    ) -> None:
        self._bounds = bounds
        self._word_of = tool_kind
        self._seen = [
            Entity(content=one, label=Label(taint=frozenset({one})), origin=one)
            for one in bounds.taint
        ]
        self._lock = threading.Lock()
        self.secrets_read: list[str] = []
        self._remember(secrets_read)

    def __call__(self, call: ToolCall) -> Decision:
        """Decide, and remember which secrets the call would show to the agent.

        Every rule that some part of the call breaks is told.
        """
        try:
            arguments = parsed_arguments(call)
        except RecursionError:
            return Denied(reason="the arguments are nested too deeply to be looked at")
        except OverflowError as error:
            return Denied(reason=f"the arguments hold {error}, which is no number of JSON")
        if any(len(path) > MAX_PATH_CHARS for path in _named(arguments)):
            return Denied(reason=f"a path of more than {MAX_PATH_CHARS} characters opens no file")
        with self._lock:
            steps = self._steps(self._word_of(call.name), arguments)
            denials = dict.fromkeys(
                denied for step, why in steps for denied in self._denials(step, why)
            )
            if not denials:
                self._remember(_named(arguments))
                return Allowed()
        first, *others = denials
        return replace(first, others=tuple(others))

    def remember_allowed(self, call: ToolCall) -> None:
        """Remember what a call would show to the agent that a person let through."""
        with self._lock:
            self._remember(_named(parsed_arguments(call)))

    @property
    def label(self) -> Label:
        """The label of whatever the agent does now: the tags of all that it saw."""
        return derive(None, origin="", sources=self._seen).label

    def _steps(
        self, word: str | None, arguments: Mapping[str, Json]
    ) -> Iterable[tuple[PlanStep, str]]:
        """What the call would do, each with the reason to give if C4 denies it; '' for C4's own."""
        yield _step("work_inside", {"call": _SEEN}, self.label.caps), ""
        changed: set[str] = set()
        if word == "shell":
            line = shell_effects(str(arguments.get("command", "")))
            self._remember(line.words)  # before it leaves in the same line
            changed |= line.changed_paths
            for host in sorted(line.hosts):
                to: Json = host if self._may_reach(host) else _SEEN
                yield _step("reach", {"host": to, "data": _SEEN}, self.label.caps), ""
        elif word in ("write", "edit"):
            changed |= _named(arguments)
        refused = {workspace_path(path) for path in changed if self._may_not_change(path)}
        if refused:
            step = _step("change_protected", {"path": _SEEN}, self.label.caps)
            yield step, f"the agent would change {describe_protected(sorted(refused))}"

    def _may_not_change(self, path: str) -> bool:
        protected = not _is_outside(path) and is_protected(path, self._bounds)
        return protected and not is_permitted(path, self._bounds)

    def _denials(self, step: PlanStep, why: str) -> Sequence[Denied]:
        plan = Plan(steps=(step,), prompt="")
        seen = derive(None, origin="what the agent saw", sources=self._seen)
        inside = Entity(content=None, label=EMPTY_LABEL, origin="sandbox")
        world = PolicyContext(
            registry=_REGISTRY,
            authority=Authority(grants=_GRANTED),
            plan=plan.id,
            values={"input.seen": seen, "place.sandbox": inside},
            entities={entity.id: entity for entity in self._seen},
        )
        decision = check_step(StepCall(plan=plan, index=0), world)
        each = decision.denials if isinstance(decision, Denied) else ()
        return [
            replace(one, others=(), reason=why if why and one.rule == "C4" else one.reason)
            for one in each
        ]

    def _remember(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            if len(self.secrets_read) == _MOST_SECRETS:
                return
            plain = workspace_path(path)
            if basename(plain) in _ENV_SAMPLES:
                continue
            if matches_any(self._bounds.secret, plain):
                label = Label(caps=frozenset({f"secret:{basename(path)}"}))
                made = Entity(content=None, label=label, origin=f"read {path}")
                if made not in self._seen:
                    self._seen.append(made)
                    self.secrets_read.append(path)

    def _may_reach(self, host: str) -> bool:
        return any(_covers(allowed, host) for allowed in self._bounds.hosts)


def is_protected(path: str, bounds: GuardBounds) -> bool:
    """Whether the file is a protected one, or stands in the place of a folder of such files."""
    plain = workspace_path(path)
    return matches_any(bounds.protected, plain) or matches_any(
        folder_patterns(bounds.protected), f"{plain}/"
    )


def is_permitted(path: str, bounds: GuardBounds) -> bool:
    """Whether `--allow-change` or the blueprint's `changes` permits a change of this file."""
    return matches_any(bounds.changes, workspace_path(path))


def describe_protected(paths: Sequence[str]) -> str:
    """The protected files by name, and the options that permit to change them; at most ten."""
    shown, more = paths[:_MOST_NAMED], len(paths) - _MOST_NAMED
    named = ", ".join(map(repr, shown)) + (f" and {more} more" if more > 0 else "")
    what = "which is a protected file" if len(paths) == 1 else "which are protected files"
    options = " ".join(f"--allow-change '{_as_pattern(path)}'" for path in shown)
    return f"{named}, {what}: to permit it, rerun with {options}"


def _as_pattern(path: str) -> str:
    """The path as a pattern that a shell takes between single quotes."""
    return "".join(
        char if char.isprintable() and char != "'" else "?" for char in workspace_path(path)
    )


def combined_guard(guards: Iterable[Guard]) -> Guard:
    """All of these: the first that denies decides, or else the last."""
    held = tuple(guards)

    def decide(call: ToolCall) -> Decision:
        decision: Decision = Allowed()
        for guard in held:
            decision = guard(call)
            if isinstance(decision, Denied):
                break
        return decision

    return decide


def _step(op: str, args: Mapping[str, Json], caps: frozenset[str]) -> PlanStep:
    found = _REGISTRY.get(op)
    needed = found.requires if found else frozenset()
    return PlanStep(op=op, args=args, tool_caps=needed, data_caps=caps)


def parsed_arguments(call: ToolCall) -> Mapping[str, Json]:
    """The arguments as the agent will read them; of a key that stands twice the last counts.

    Those that are no JSON object are none: no tool takes them.

    Raises:
        RecursionError: they are nested deeper than anybody reads here; another may read them.
        OverflowError: a number in them is none, or too large; another may read them.
    """
    try:
        found = json.loads(call.arguments, parse_float=_finite, parse_constant=_finite)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise OverflowError(text[:20])
    return number


def _named(arguments: Mapping[str, Json]) -> set[str]:
    return {str(arguments[name]) for name in _PATHS if arguments.get(name)}


def workspace_path(path: str) -> str:
    """The path as patterns see it: relative to the workspace, and as any agent may read it.

    Some take a `file://` or an `@` away that stands before it, in whatever order, and unusual
    spaces for plain ones.
    """
    return _as_read(path).removeprefix(_WORKSPACE).lstrip("/")


def _is_outside(path: str) -> bool:
    """Whether the path leads out of the workspace, such as into /tmp or the home directory.

    A path that leads back in by a link is found when the work is collected.
    """
    read = _as_read(path)
    return read.startswith(("/", "~")) and not f"{read}/".startswith(_WORKSPACE)


def _as_read(path: str) -> str:
    read = "".join(" " if char.isspace() else char for char in path)
    while len(path) <= MAX_PATH_CHARS and (bare := _of_url(read.lstrip("@"))) != read:
        read = bare
    if read.startswith("/"):
        read = f"/{read.lstrip('/')}"  # of two, `normpath` would keep both
    return normpath(read)


def _of_url(path: str) -> str:
    """The path that a `file:` URL names here; another path as it is."""
    scheme, colon, rest = path.partition(":")
    if not colon or scheme.lower() != "file":
        return path
    host, slash, below = rest.removeprefix("//").partition("/")
    here = rest.startswith("//") and host.lower() in _HERE
    return unquote(slash + below if here else rest.removeprefix("//"))


def _covers(allowed: str, host: str) -> bool:
    name = allowed.partition(":")[0].lower()
    return host.endswith(name[1:]) if name.startswith("*.") else host == name
