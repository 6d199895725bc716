"""The five tools of the native agent. Docstrings of the argument classes go to the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from contracts.errors import SandboxFileError
from contracts.sandbox import Command, ExecResult, Sandbox
from contracts.tool import Tool, ToolCall
from nodes.node_sandbox import discard_output

MAX_TOOL_OUTPUT = 30_000
"""Characters of one tool's output that the model gets; it finds a longer one in a file."""

_MAX_KEPT = 4 << 20
"""Bytes of a command's output that are kept: its beginning and its end."""

_MAX_LINE = 2000
_BINARY_PROBE = 8192
_SEARCH_TIMEOUT_S = 60.0
_NO_PROGRAM = 127


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The sandbox for tools. `left_s` returns the seconds until the agent's time limit."""

    sandbox: Sandbox
    left_s: Callable[[], float]

    def run(self, *argv: str, timeout_s: float) -> ExecResult:
        """Run argv without live output, no longer than the agent's time limit."""
        timeout_s = max(0.1, min(timeout_s, self.left_s()))
        command = Command(argv=argv, timeout_s=timeout_s, output_limit=_MAX_KEPT)
        return self.sandbox.exec(command, discard_output)


@dataclass(frozen=True)
class ToolOutput:
    """`text` is for the model, `note` (two or three words) for the live line."""

    text: str
    note: str


class ToolRefused(Exception):
    """The tool cannot do this; the message tells the model what to do instead."""


class CallMalformed(Exception):
    """The tool does not exist, or the arguments are invalid; the message is for the model."""


class ToolArgs(BaseModel):
    """Arguments by a model; unknown arguments are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


NoNulText = Annotated[str, AfterValidator(_check_no_nul)]
"""Text that can be an argument of a command."""


class Bash(ToolArgs):
    """Run a command with bash in the workspace and wait for it. Output and errors come
    together. Nothing may be left running in the background; nobody can answer a prompt."""

    command: NoNulText = Field(min_length=1)
    timeout_s: float = Field(default=120, gt=0, le=1800)

    @property
    def subject(self) -> str:
        return self.command

    def run(self, context: ToolContext) -> ToolOutput:
        result = self._start("bash", context)
        if result.exit_code == _NO_PROGRAM and result.launch_error:
            result = self._start("sh", context)
        note = "timed out" if result.timed_out else f"exit {result.exit_code}"
        return ToolOutput(f"{_ending(result)}\n{result.text or '(no output)'}", note)

    def _start(self, shell: str, context: ToolContext) -> ExecResult:
        # A login shell would read /etc/profile, which resets PATH.
        return context.run(shell, "-c", f"exec 2>&1\n{self.command}", timeout_s=self.timeout_s)


class SearchFiles(ToolArgs):
    """Search the text of files by an extended regular expression. Gives path:line:text."""

    pattern: NoNulText = Field(min_length=1)
    path: NoNulText = Field(default=".", min_length=1, description="File or folder to search in.")
    glob: NoNulText | None = Field(default=None, description="Only files so named, such as *.py.")

    @property
    def subject(self) -> str:
        return f"{self.pattern} in {self.path}"

    def run(self, context: ToolContext) -> ToolOutput:
        result = context.run(*self._ripgrep(), timeout_s=_SEARCH_TIMEOUT_S)
        if result.exit_code == _NO_PROGRAM and result.launch_error:
            result = context.run(*self._grep(), timeout_s=_SEARCH_TIMEOUT_S)
        found = result.stdout.decode("utf-8", "replace").rstrip("\n")
        if found:
            return ToolOutput(found, f"{len(found.splitlines())} lines")
        if result.exit_code == 1 and not result.stderr:
            return ToolOutput("no match", "no match")
        raise ToolRefused(f"search failed, {_ending(result)}: {result.text}")

    def _ripgrep(self) -> list[str]:
        shape = ["--line-number", "--with-filename", "--no-heading", "--color=never"]
        only = [] if self.glob is None else [f"--glob={self.glob}"]
        order = ["--sort=path", "--max-columns=300"]
        return ["rg", *shape, *order, *only, "-e", self.pattern, "--", self.path]

    def _grep(self) -> list[str]:
        only = [] if self.glob is None else [f"--include={self.glob}"]
        return ["grep", "-rnIHE", "--exclude-dir=.git", *only, "-e", self.pattern, "--", self.path]


class ReadFile(ToolArgs):
    """Read a text file. Each line comes with its number and a tab before it."""

    path: NoNulText = Field(min_length=1, description="Absolute, or relative to the workspace.")
    offset: int = Field(default=1, ge=1, description="First line to give.")
    limit: int = Field(default=1000, ge=1, le=5000, description="How many lines to give.")

    @property
    def subject(self) -> str:
        return self.path

    def run(self, context: ToolContext) -> ToolOutput:
        data = context.sandbox.read_file(self.path)
        if b"\0" in data[:_BINARY_PROBE]:
            raise ToolRefused(f"{self.path!r} is binary ({len(data)} bytes): look at it with bash")
        lines = data.decode("utf-8", "replace").split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return ToolOutput("(the file is empty)", "empty")
        if self.offset > len(lines):
            raise ToolRefused(
                f"{self.path!r} has {len(lines)} lines, line {self.offset} is past it"
            )
        shown = _numbered(lines[self.offset - 1 :][: self.limit], first=self.offset)
        last = self.offset - 1 + len(shown)
        more = f"(lines {self.offset} to {last} of {len(lines)}; offset={last + 1} gives more)"
        text = "\n".join([*shown, more] if last < len(lines) else shown)
        return ToolOutput(text, f"{len(shown)} lines")


def _numbered(lines: Sequence[str], *, first: int) -> list[str]:
    """Return as many lines with their numbers as one output may hold."""
    numbered = (f"{number}\t{_shortened(line)}" for number, line in enumerate(lines, start=first))
    shown, size = [], _MAX_LINE
    for line in numbered:
        size += len(line) + 1
        if size > MAX_TOOL_OUTPUT:
            break
        shown.append(line)
    return shown


def _shortened(line: str) -> str:
    left_out = len(line) - _MAX_LINE
    return line if left_out <= 0 else f"{line[:_MAX_LINE]} [… {left_out} characters left out …]"


class WriteFile(ToolArgs):
    """Write a file whole. An old one is replaced, missing folders are made."""

    path: NoNulText = Field(min_length=1)
    content: str

    @property
    def subject(self) -> str:
        return self.path

    def run(self, context: ToolContext) -> ToolOutput:
        data = self.content.encode()
        context.sandbox.write_file(self.path, data)
        return ToolOutput(f"wrote {len(data)} bytes to {self.path}", f"{len(data)} bytes")


class EditFile(ToolArgs):
    """Replace one piece of a file. `old` must stand in the file exactly once, white space
    included; give enough lines around it, without the line numbers of read_file."""

    path: NoNulText = Field(min_length=1)
    old: str = Field(min_length=1)
    new: str

    @property
    def subject(self) -> str:
        return self.path

    def run(self, context: ToolContext) -> ToolOutput:
        if self.old == self.new:
            raise ToolRefused("old and new are the same: nothing to do")
        data = context.sandbox.read_file(self.path)
        old, new = self.old.encode(), self.new.encode()
        count = data.count(old)
        if count != 1:
            raise ToolRefused(self._refusal(count, data))
        context.sandbox.write_file(self.path, data.replace(old, new))
        line = data[: data.index(old)].count(b"\n") + 1
        return ToolOutput(f"edited {self.path} at line {line}", f"line {line}")

    def _refusal(self, count: int, data: bytes) -> str:
        if count:
            return f"old stands {count} times in {self.path!r}: add lines around it until it is one"
        if b"\r\n" in data and "\n" in self.old:
            return f"old is not in {self.path!r}: its lines end in \\r\\n, write them so"
        return f"old is not in {self.path!r}: read the file again and copy the piece exactly"


AnyArgs = Bash | ReadFile | WriteFile | EditFile | SearchFiles

_TOOLS: Mapping[str, type[AnyArgs]] = {
    "bash": Bash,
    "read_file": ReadFile,
    "write_file": WriteFile,
    "edit_file": EditFile,
    "search": SearchFiles,
}


def native_tools() -> tuple[Tool, ...]:
    """Return all five tools as a model sees them."""
    return tuple(_tool(name, args) for name, args in _TOOLS.items())


def parse_call(call: ToolCall) -> AnyArgs:
    """Parse the arguments of a call.

    Raises:
        CallMalformed: the tool is unknown, or the arguments are invalid.
    """
    args = _TOOLS.get(call.name)
    if args is None:
        raise CallMalformed(f"no tool {call.name!r}; there are {', '.join(_TOOLS)}")
    try:
        return args.model_validate_json(call.arguments or "{}")
    except ValidationError as error:
        raise CallMalformed(f"bad arguments for {call.name}: {_describe(error)}") from error


def run_tool(args: AnyArgs, context: ToolContext) -> ToolOutput:
    """Run one tool. An error of the tool is output for the model.

    Raises:
        SandboxLost: an outage, which is not the model's concern.
    """
    try:
        return args.run(context)
    except (SandboxFileError, ToolRefused) as error:
        return ToolOutput(f"error: {error}", "error")


def _ending(result: ExecResult) -> str:
    """Return everything about the end of a command that the model should know."""
    parts = [f"exit {result.exit_code}"]
    if result.launch_error:
        parts = [f"not started: {result.launch_error}"]
    if result.timed_out:
        parts = ["stopped, its time was over: ask for more with timeout_s, or do less"]
    if result.out_of_memory:
        parts.append("out of memory")
    if result.out_of_disk:
        parts.append("out of disk")
    if result.disturbed:
        parts.append("ended by a signal, maybe of a command that ran at the same time")
    if result.out_of_processes:
        parts.append("the sandbox's limit of processes was reached")
    if result.killed_children:
        parts.append(f"{result.killed_children} processes left in the background were ended")
    if result.truncated:
        parts.append(f"output shortened, it was {result.stdout_size + result.stderr_size} bytes")
    return ", ".join(parts)


def _tool(name: str, args: type[AnyArgs]) -> Tool:
    schema = args.model_json_schema()
    properties = schema["properties"].items()
    # pydantic's titles repeat the names and cost tokens.
    plain = {key: {k: v for k, v in field.items() if k != "title"} for key, field in properties}
    description = " ".join(str(schema["description"]).split())
    kept = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    return Tool(name=name, description=description, parameters={**kept, "properties": plain})


def _describe(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    return "; ".join(
        ": ".join([*(str(part) for part in fault["loc"]), fault["msg"]]) for fault in faults[:5]
    )
