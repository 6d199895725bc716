"""The guard of an agent: decides about each tool call before the agent may execute it.

Everything that an agent asks for may be influenced by the untrusted text it has read. So an agent
works freely inside the sandbox, but to write a protected file it needs a person's approval, and so
does an agent that has read a secret to contact a host. Other hosts than the allowed ones cannot be
reached from the sandbox, and other ways to change a file are found when the work is collected.
A tool of an MCP server is outside the sandbox: what sends data out, or is not declared, is asked
about, and so is any of them once the agent has read a secret.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from posixpath import basename, normpath
from urllib.parse import unquote

from contracts.entity import Label
from contracts.json import Json
from contracts.model_access import GuardBounds
from contracts.tool import Allowed, Decision, Denied, Guard, ToolCall
from policy.authority import matches_any
from policy.guard.links import MAX_PATH_CHARS
from policy.guard.look_alikes import comparable
from policy.guard.protected import is_permitted_path, is_protected_path, reason_for
from policy.guard.shell_reader import contacted_hosts, words_of

SECRET_FILES = (
    ".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc",
    "credentials", "credentials.*", "secrets.*", "*.kdbx", "*.p12",
)  # fmt: skip
"""Default patterns of files that contain secrets."""

GUARD_VERSION = "agent-guard/2.2"
"""Version of these rules in the event log. Raise it whenever a decision changes."""

_PATH_ARGUMENTS = ("path", "file_path", "filePath", "notebook_path")
_COMMAND_ARGUMENTS = ("command", "cmd", "chars")
"""All of them count: one agent ignores the argument that another one obeys."""

_MAX_SECRETS = 100
"""Secret files remembered for one agent. The first one already stops everything that leaves."""

_MAX_NAMED = 10
"""Files, or hosts, named in one denial."""

MENTIONED = "your request mentions this file"
"""Begins the last entry of a provenance if the user's own words name the file."""

_MCP_TOOL = re.compile(r"mcp\((?P<server>[^:]*):(?P<tool>.*)\)", re.DOTALL)
_WORKSPACE = "/workspace/"
# Agents open file://localhost/x as /x.
_LOCAL_HOSTS = ("localhost", "127.0.0.1")
# Samples are committed and hold no secret.
# Without this exception every agent that reads one would be stopped.
_ENV_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})


class AgentGuard:
    """Decides about the tool calls of one agent; thread-safe.

    `tool_kind` maps the name of a tool to its word in `nodes/agents/allowed_tools.py`, such as
    `shell` or `mcp(tracker:get_issue)`.
    `secrets_read` are the secret files that the agent's conversation already contains.
    """

    def __init__(
        self,
        bounds: GuardBounds,
        tool_kind: Callable[[str], str | None],
        secrets_read: Iterable[str] = (),
    ) -> None:
        self._bounds = bounds
        self._tool_kind = tool_kind
        # Without it, a parallel call could send a secret out while another one reads it.
        self._lock = threading.Lock()
        self.secrets_read: list[str] = []
        self._remember_secrets(secrets_read)

    def __call__(self, call: ToolCall) -> Decision:
        """Decide about a call, and remember the secrets that it would show to the agent.

        A denial lists every rule that some part of the call breaks.
        """
        try:
            arguments = parsed_arguments(call)
        except RecursionError:
            return Denied(reason="the arguments are nested too deeply to be checked")
        except OverflowError as error:
            return Denied(reason=f"the arguments hold {error}, which is not a JSON number")
        if any(len(path) > MAX_PATH_CHARS for path in _paths_in(arguments)):
            return Denied(reason=f"a path of more than {MAX_PATH_CHARS} characters opens no file")
        with self._lock:
            denials = tuple(dict.fromkeys(self._denials(self._tool_kind(call.name), arguments)))
            if not denials:
                self._remember_secrets(_paths_in(arguments))
                return Allowed()
        return replace(denials[0], others=denials[1:])

    def remember_allowed(self, call: ToolCall) -> None:
        """Remember the secrets that a call approved by a person shows to the agent."""
        with self._lock:
            self._remember_secrets(_paths_in(parsed_arguments(call)))

    @property
    def label(self) -> Label:
        """The label of the agent's actions: the tags of everything that it has read."""
        caps = frozenset(f"secret:{basename(path)}" for path in self.secrets_read)
        return Label(caps=caps, taint=frozenset(self._bounds.taint))

    def _denials(self, kind: str | None, arguments: Mapping[str, Json]) -> Iterator[Denied]:
        if kind == "shell" and self._bounds.hosts:
            line = "\n".join(str(arguments[key]) for key in _COMMAND_ARGUMENTS if key in arguments)
            self._remember_secrets(words_of(line))  # the same line could send a secret out
            hosts = sorted(contacted_hosts(line)) if self.secrets_read else []
            if hosts:
                yield from self._secret(_first_few(hosts))
        elif kind in ("write", "edit"):
            paths = {workspace_path(one) for one in _paths_in(arguments) if self._is_forbidden(one)}
            if paths:
                yield from self._untrusted(
                    f"the agent would change {describe_protected(sorted(paths))}",
                    "/path",
                    mentions(self._bounds, sorted(paths)),
                )
                yield from self._secret("a protected file")
        elif kind is not None and (of_mcp := _MCP_TOOL.fullmatch(kind)):
            yield from self._mcp(of_mcp["server"], of_mcp["tool"])

    def _mcp(self, server: str, tool: str) -> Iterator[Denied]:
        effect = self._bounds.effects.get(f"{server}:{tool}")
        if effect not in ("read", "write"):
            what = "sends data out" if effect else "may send data out: no effect is declared"
            yield from self._untrusted(
                f"the agent would call {tool!r} of the MCP server {server!r}, which {what}: to "
                f"permit it, declare it as read or write in [mcp.{server}.tools]",
                "/tool",
            )
        yield from self._secret(f"the MCP server {server!r}")

    def _untrusted(self, what: str, argument: str, notes: Sequence[str] = ()) -> Iterator[Denied]:
        """Rule C4: untrusted text may have decided that this is done, and how."""
        taint = self._bounds.taint
        if taint:
            yield Denied(
                reason=what,
                rule="C4",
                argument=argument,
                tags=frozenset(taint),
                provenance=(taint[0], "what the agent saw", *notes),
            )

    def _secret(self, recipient: str) -> Iterator[Denied]:
        """Rule C3: a secret that the agent has read may not go to this recipient."""
        caps = self.label.caps
        if caps:
            yield Denied(
                reason=f"the agent has read {', '.join(sorted(caps))}, which may not go to "
                f"{recipient}",
                rule="C3",
                argument="/data_caps",
                tags=caps,
                provenance=(f"read {self.secrets_read[0]}", "what the agent saw"),
            )

    def _is_forbidden(self, path: str) -> bool:
        protected = not _is_outside(path) and is_protected(path, self._bounds)
        return protected and not is_permitted(path, self._bounds)

    def _remember_secrets(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            if len(self.secrets_read) == _MAX_SECRETS:
                return
            if path not in self.secrets_read and is_secret_file(path, self._bounds.secret):
                self.secrets_read.append(path)


def combined_guard(guards: Iterable[Guard]) -> Guard:
    """Return a guard that gives the first denial of these guards, or else the last decision."""
    each = tuple(guards)

    def decide(call: ToolCall) -> Decision:
        decision: Decision = Allowed()
        for guard in each:
            decision = guard(call)
            if isinstance(decision, Denied):
                break
        return decision

    return decide


def is_secret_file(path: str, patterns: Sequence[str]) -> bool:
    """Return True if the file has the name of a secret and is no sample."""
    plain = workspace_path(path)
    return matches_any(patterns, plain) and basename(plain) not in _ENV_SAMPLES


def is_protected(path: str, bounds: GuardBounds) -> bool:
    """Return True if the file is protected, or replaces a folder that holds protected files."""
    return is_protected_path(workspace_path(path), bounds.protected)


def is_permitted(path: str, bounds: GuardBounds) -> bool:
    """Return True if `--allow-change` or the blueprint's `changes` permits changing this file."""
    return is_permitted_path(workspace_path(path), bounds.changes)


def mentions(bounds: GuardBounds, paths: Sequence[str]) -> tuple[str, ...]:
    """Return a note if the user's request mentions one of these files. It permits nothing."""
    found = [path for path in paths if any(_names(word, path) for word in bounds.mentioned)]
    return (f"{MENTIONED}: {_first_few([repr(path) for path in found])}",) if found else ()


def _names(word: str, path: str) -> bool:
    return f"/{path.casefold()}".endswith(f"/{word.casefold()}")


def describe_protected(paths: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Return the names of protected files, why they are, and the options that permit changes.

    At most ten files are named. `notes` are further reasons.
    """
    noun = "which is a protected file" if len(paths) == 1 else "which are protected files"
    shown = paths[:_MAX_NAMED]
    odd = (path for path in shown if comparable(path) != path.casefold())
    likes = (f"{path!a} looks like {comparable(path)!r}" for path in odd)
    reasons = [*dict.fromkeys(filter(None, map(reason_for, shown))), *likes, *notes]
    why = f" ({'; '.join(reasons)})" if reasons else ""
    options = " ".join(f"--allow-change '{_as_pattern(path)}'" for path in shown)
    names = _first_few([repr(path) for path in paths])
    return f"{names}, {noun}{why}: to permit it, rerun with {options}"


def _first_few(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _as_pattern(path: str) -> str:
    """Return the path as a pattern that is safe between single quotes in a shell."""
    plain = workspace_path(path)
    # A person pastes the option into a shell, and a file name may hold a quote and a command.
    return "".join(char if char.isprintable() and char != "'" else "?" for char in plain)


def parsed_arguments(call: ToolCall) -> Mapping[str, Json]:
    """Return the arguments as the agent will parse them; the last of two equal keys counts.

    Arguments that are not a JSON object give an empty mapping, because no tool accepts them.

    Raises:
        RecursionError: they are nested too deeply for this parser; the agent's may accept them.
        OverflowError: a number is infinite or NaN; the agent's parser may accept it.
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


def _paths_in(arguments: Mapping[str, Json]) -> set[str]:
    return {str(arguments[name]) for name in _PATH_ARGUMENTS if arguments.get(name)}


def workspace_path(path: str) -> str:
    """Return the path relative to the workspace, as any agent may interpret it.

    Some agents strip a leading `file://` or `@`, in any order, and treat unusual spaces as
    plain ones.
    """
    return _interpreted(path).removeprefix(_WORKSPACE).lstrip("/")


def _is_outside(path: str) -> bool:
    """Return True if the path leads out of the workspace, such as to /tmp or the home directory.

    A link that leads back in is found when the work is collected (`changed_files.py`).
    """
    plain = _interpreted(path)
    return plain.startswith(("/", "~")) and not f"{plain}/".startswith(_WORKSPACE)


def _interpreted(path: str) -> str:
    plain = "".join(" " if char.isspace() else char for char in path)
    # Prefixes can be nested, such as @file:@/workspace/x.
    while len(path) <= MAX_PATH_CHARS and (inner := _file_url_path(plain.lstrip("@"))) != plain:
        plain = inner
    if plain.startswith("/"):
        plain = f"/{plain.lstrip('/')}"  # `normpath` would keep two leading slashes
    return normpath(plain)


def _file_url_path(path: str) -> str:
    """Return the path that a local `file:` URL names, or any other path unchanged."""
    scheme, colon, rest = path.partition(":")
    if not colon or scheme.lower() != "file":
        return path
    host, slash, below = rest.removeprefix("//").partition("/")
    is_local = rest.startswith("//") and host.lower() in _LOCAL_HOSTS
    return unquote(slash + below if is_local else rest.removeprefix("//"))
