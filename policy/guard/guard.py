"""The guard of an agent: each of its tool calls is an operation, decided by the same rules.

What an agent asks for is made of all that it saw. So it works freely inside the sandbox;
whatever leaves, or changes what others run, must be named by the user or allowed by one.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from posixpath import basename, normpath
from typing import Annotated
from urllib.parse import unquote

from contracts.entity import CLEAN, Entity, Label, derived
from contracts.gate import Bounds
from contracts.json import Json
from contracts.tool import Allowed, Decision, Denied, Guard, ToolCall
from policy.authority import Authority
from policy.errors import OperationFailed
from policy.file_labels import matches
from policy.guard.shell_reader import touched
from policy.plan.registry import Registry, operation
from policy.plan.resolve import Call, World
from policy.plan.step_check import RULES, check_step
from policy.types import Plan, Step

PROTECTED = (
    ".github/**", ".gitea/**", ".forgejo/**", ".gitlab-ci.yml", ".gitlab/**", ".circleci/**",
    ".buildkite/**", ".woodpecker/**", ".woodpecker.yml", ".drone.yml", "Jenkinsfile",
    "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".travis.yml", ".ci/**",
    ".pre-commit-config.yaml", ".husky/**", ".devcontainer/**", ".envrc", ".vscode/tasks.json",
    ".git/**", ".gitmodules", "*.lock", "package-lock.json", "npm-shrinkwrap.json",
    "pnpm-lock.yaml", "bun.lockb", "packages.lock.json", "gradle.lockfile",
    ".terraform.lock.hcl", "go.sum",
)  # fmt: skip
"""Files that decide what others run: CI, hooks, and what gets installed."""

SECRET = (
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

LONGEST_PATH = 4_096
"""Characters; Linux opens nothing by a longer one."""

_HERE = ("localhost", "127.0.0.1")
_ENV_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})


@operation(effect="write", requires=[_INSIDE], place="sandbox")
def work_inside(call: Annotated[object, "content"]) -> Json:
    """Work on files and processes of the sandbox."""
    return _by_the_agent(call)


@operation(effect="write", requires=[_LEAVE])
def change_protected(path: Annotated[object, "authority"]) -> Json:
    """Change what decides what others run."""
    return _by_the_agent(path)


@operation(effect="egress", requires=[_LEAVE])
def reach(host: Annotated[object, "recipient"], data: Annotated[object, "content"]) -> Json:
    """Reach a host outside."""
    return _by_the_agent(host, data)


def _by_the_agent(*_: object) -> Json:
    raise OperationFailed("agents run their tools themselves: these are only decided on here")


_REGISTRY = Registry([work_inside, change_protected, reach])
_SEEN: Json = {"$ref": "input.seen"}


GUARD = f"agent-guard/{RULES}.2"
"""How decisions of these rules, and of the reading of shell lines, are named in the event log."""


class AgentGuard:
    """Decides about the calls of one agent. Several threads may ask it.

    `word_of` gives the word of `allowed.py` that a tool falls under. What the agent has seen
    only grows: a secret that it read stays with it. `read` are those of before.
    """

    def __init__(
        self, bounds: Bounds, word_of: Callable[[str], str | None], read: Iterable[str] = ()
    ) -> None:
        self._bounds = bounds
        self._word_of = word_of
        self._seen = [
            Entity(content=one, label=Label(taint=frozenset({one})), origin=one)
            for one in bounds.taint
        ]
        self._lock = threading.Lock()
        self.secrets: list[str] = []
        self._remember(read)

    def __call__(self, call: ToolCall) -> Decision:
        """Decide, and remember which secrets the call would show to the agent.

        Every rule that some part of the call breaks is told.
        """
        try:
            arguments = call_arguments(call)
        except RecursionError:
            return Denied(reason="the arguments are nested too deeply to be looked at")
        except OverflowError as error:
            return Denied(reason=f"the arguments hold {error}, which is no number of JSON")
        if any(len(path) > LONGEST_PATH for path in _named(arguments)):
            return Denied(reason=f"a path of more than {LONGEST_PATH} characters opens no file")
        with self._lock:
            steps = self._steps(self._word_of(call.name), arguments)
            denials = dict.fromkeys(denied for step in steps for denied in self._denials(step))
            if not denials:
                self._remember(_named(arguments))
                return Allowed()
        first, *others = denials
        return replace(first, also=tuple(others))

    def let(self, call: ToolCall) -> None:
        """Remember what a call would show to the agent that a person let through."""
        with self._lock:
            self._remember(_named(call_arguments(call)))

    @property
    def label(self) -> Label:
        """The label of whatever the agent does now: the tags of all that it saw."""
        return derived(None, origin="", of=self._seen).label

    def _steps(self, word: str | None, arguments: Mapping[str, Json]) -> Iterable[Step]:
        yield _step("work_inside", {"call": _SEEN}, self.label.caps)
        changed: set[str] = set()
        if word == "shell":
            line = touched(str(arguments.get("command", "")))
            self._remember(line.named)  # before it leaves in the same line
            changed |= line.changed
            for host in sorted(line.hosts):
                to: Json = host if self._may_reach(host) else _SEEN
                yield _step("reach", {"host": to, "data": _SEEN}, self.label.caps)
        elif word in ("write", "edit"):
            changed |= _named(arguments)
        for path in sorted(path for path in changed if is_protected(path, self._bounds)):
            known = is_vouched(path, self._bounds)
            yield _step("change_protected", {"path": path if known else _SEEN}, self.label.caps)

    def _denials(self, step: Step) -> Sequence[Denied]:
        plan = Plan(steps=(step,), prompt="")
        seen = derived(None, origin="what the agent saw", of=self._seen)
        inside = Entity(content=None, label=CLEAN, origin="sandbox")
        world = World(
            registry=_REGISTRY,
            authority=Authority(grants=_GRANTED),
            plan=plan.id,
            values={"input.seen": seen, "place.sandbox": inside},
            entities={entity.id: entity for entity in self._seen},
        )
        decision = check_step(Call(plan=plan, index=0), world)
        each = decision.each if isinstance(decision, Denied) else ()
        return [replace(one, also=()) for one in each]

    def _remember(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            if len(self.secrets) == _MOST_SECRETS:
                return
            plain = plain_path(path)
            if basename(plain) in _ENV_SAMPLES:
                continue
            if matches(self._bounds.secret, plain):
                label = Label(caps=frozenset({f"secret:{basename(path)}"}))
                made = Entity(content=None, label=label, origin=f"read {path}")
                if made not in self._seen:
                    self._seen.append(made)
                    self.secrets.append(path)

    def _may_reach(self, host: str) -> bool:
        return any(_covers(allowed, host) for allowed in self._bounds.hosts)


def is_protected(path: str, bounds: Bounds) -> bool:
    """Whether the file decides what others run; so does whatever stands in its folder's place."""
    plain = plain_path(path)
    return matches(bounds.protected, plain) or matches(bounds.protected, f"{plain}/x")


def is_vouched(path: str, bounds: Bounds) -> bool:
    """Whether the user named this file, or the run is there to change it."""
    if matches(bounds.changes, plain_path(path)):
        return True
    said = set(bounds.trusted.replace("`", " ").replace('"', " ").split())
    words = {word.rstrip(".,;:!?)'").lstrip("('").lower() for word in said}
    name, plain = basename(path), plain_path(path)
    names = {path, plain} if "/" in plain else set()
    if "." in name or name in bounds.protected:  # else it may be no more than a word, as "build"
        names.add(name)
    return bool(words & {one.lower() for one in names})


def guarded(guards: Iterable[Guard]) -> Guard:
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


def _step(op: str, args: Mapping[str, Json], caps: frozenset[str]) -> Step:
    found = _REGISTRY.get(op)
    needed = found.requires if found else frozenset()
    return Step(op=op, args=args, tool_caps=needed, data_caps=caps)


def call_arguments(call: ToolCall) -> Mapping[str, Json]:
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


def plain_path(path: str) -> str:
    """The path as patterns see it: relative to the workspace, and as any agent may read it.

    Some take a `file://` or an `@` away that stands before it, in whatever order, and unusual
    spaces for plain ones.
    """
    read = "".join(" " if char.isspace() else char for char in path)
    while len(path) <= LONGEST_PATH and (bare := _of_url(read.lstrip("@"))) != read:
        read = bare
    if read.startswith("/"):
        read = f"/{read.lstrip('/')}"  # of two, `normpath` would keep both
    return normpath(read).removeprefix("/workspace/").lstrip("/")


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
