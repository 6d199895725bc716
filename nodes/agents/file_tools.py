"""The tools `read_file`, `write_file` and `edit_file`."""

from itertools import islice

from pydantic import Field

from nodes.agents.tool_context import NoNulText, ToolArgs, ToolContext, ToolOutput, ToolRefused

_LINE_CAP = 2000
_BINARY_PROBE = 8192


class ReadFile(ToolArgs):
    """Read a text file. Each line comes with its number and a tab before it."""

    path: NoNulText = Field(min_length=1, description="Absolute, or relative to the workspace.")
    offset: int = Field(default=1, ge=1, description="First line to give.")
    limit: int = Field(default=1000, ge=1, le=5000, description="How many lines to give.")

    @property
    def subject(self) -> str:
        return self.path

    def run(self, bench: ToolContext) -> ToolOutput:
        data = bench.sandbox.read_file(self.path)
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
        last = min(len(lines), self.offset - 1 + self.limit)
        shown = islice(enumerate(lines, start=1), self.offset - 1, last)
        text = "\n".join(f"{number}\t{line[:_LINE_CAP]}" for number, line in shown)
        more = f"\n(lines {self.offset} to {last} of {len(lines)})" if last < len(lines) else ""
        return ToolOutput(text + more, f"{last - self.offset + 1} lines")


class WriteFile(ToolArgs):
    """Write a file whole. An old one is replaced, missing folders are made."""

    path: NoNulText = Field(min_length=1)
    content: str

    @property
    def subject(self) -> str:
        return self.path

    def run(self, bench: ToolContext) -> ToolOutput:
        data = self.content.encode()
        bench.sandbox.write_file(self.path, data)
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

    def run(self, bench: ToolContext) -> ToolOutput:
        if self.old == self.new:
            raise ToolRefused("old and new are the same: nothing to do")
        data = bench.sandbox.read_file(self.path)
        old, new = self.old.encode(), self.new.encode()
        found = data.count(old)
        if found != 1:
            raise ToolRefused(self._why_not(found, data))
        bench.sandbox.write_file(self.path, data.replace(old, new))
        line = data[: data.index(old)].count(b"\n") + 1
        return ToolOutput(f"edited {self.path} at line {line}", f"line {line}")

    def _why_not(self, found: int, data: bytes) -> str:
        if found:
            return f"old stands {found} times in {self.path!r}: add lines around it until it is one"
        if b"\r\n" in data and "\n" in self.old:
            return f"old is not in {self.path!r}: its lines end in \\r\\n, write them so"
        return f"old is not in {self.path!r}: read the file again and copy the piece exactly"
