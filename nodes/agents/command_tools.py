"""The tools `bash` and `search`."""

from pydantic import Field

from contracts.sandbox import ExecResult
from nodes.agents.tool_context import NoNulText, ToolArgs, ToolContext, ToolOutput, ToolRefused

_SEARCH_TIMEOUT_S = 60.0
_NO_PROGRAM = 127


class Bash(ToolArgs):
    """Run a command with bash in the workspace and wait for it. Output and errors come
    together. Nothing may be left running in the background; nobody can answer a prompt."""

    command: NoNulText = Field(min_length=1)
    timeout_s: float = Field(default=120, gt=0, le=1800)

    @property
    def subject(self) -> str:
        return self.command

    def run(self, bench: ToolContext) -> ToolOutput:
        result = self._start("bash", bench)
        if result.exit_code == _NO_PROGRAM and result.launch_error:
            result = self._start("sh", bench)
        return ToolOutput(f"{_ending(result)}\n{result.text or '(no output)'}", _note(result))

    def _start(self, shell: str, bench: ToolContext) -> ExecResult:
        # No login shell: /etc/profile would put back a PATH of its own.
        return bench.run(shell, "-c", f"exec 2>&1\n{self.command}", timeout_s=self.timeout_s)


class SearchFiles(ToolArgs):
    """Search the text of files by an extended regular expression. Gives path:line:text."""

    pattern: NoNulText = Field(min_length=1)
    path: NoNulText = Field(default=".", min_length=1, description="File or folder to search in.")
    glob: NoNulText | None = Field(default=None, description="Only files so named, such as *.py.")

    @property
    def subject(self) -> str:
        return f"{self.pattern} in {self.path}"

    def run(self, bench: ToolContext) -> ToolOutput:
        result = bench.run(*self._ripgrep(), timeout_s=_SEARCH_TIMEOUT_S)
        if result.exit_code == _NO_PROGRAM and result.launch_error:
            result = bench.run(*self._grep(), timeout_s=_SEARCH_TIMEOUT_S)
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


def _ending(result: ExecResult) -> str:
    """How the command ended, with all that the model should know of it."""
    parts = [f"exit {result.exit_code}"]
    if result.launch_error:
        parts = [f"not started: {result.launch_error}"]
    if result.timed_out:
        parts = ["stopped, its time was over: ask for more with timeout_s, or do less"]
    if result.out_of_memory:
        parts.append("out of memory")
    if result.out_of_disk:
        parts.append("out of disk")
    if result.out_of_processes:
        parts.append("the sandbox's limit of processes was reached")
    if result.killed_children:
        parts.append(f"{result.killed_children} processes left in the background were ended")
    if result.truncated:
        parts.append(f"output shortened, it was {result.stdout_size + result.stderr_size} bytes")
    return ", ".join(parts)


def _note(result: ExecResult) -> str:
    return "timed out" if result.timed_out else f"exit {result.exit_code}"
