"""The five tools of the native agent: what the model sees of them, and one call run."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import ValidationError

from contracts.errors import SandboxFileError
from contracts.tool import Tool, ToolCall
from nodes.agents.command_tools import Bash, SearchFiles
from nodes.agents.file_tools import EditFile, ReadFile, WriteFile
from nodes.agents.tool_context import ToolContext, ToolOutput, ToolRefused
from nodes.text import truncate_middle

TOOL_OUTPUT_CAP = 30_000
"""Characters of one tool's output that the model sees."""

AnyArgs = Bash | ReadFile | WriteFile | EditFile | SearchFiles

_ARGS: Mapping[str, type[AnyArgs]] = {
    "bash": Bash,
    "read_file": ReadFile,
    "write_file": WriteFile,
    "edit_file": EditFile,
    "search": SearchFiles,
}


class CallMalformed(Exception):
    """No such tool, or arguments that it does not take; the message is for the model."""


def native_tools() -> tuple[Tool, ...]:
    """All five as a model is told of them; they are described by their argument classes."""
    return tuple(_tool(name, args) for name, args in _ARGS.items())


def parse_call(call: ToolCall) -> AnyArgs:
    """The arguments of a call, checked.

    Raises:
        CallMalformed: an unknown tool, or arguments that are not what it takes.
    """
    args = _ARGS.get(call.name)
    if args is None:
        raise CallMalformed(f"no tool {call.name!r}; there are {', '.join(_ARGS)}")
    try:
        return args.model_validate_json(call.arguments or "{}")
    except ValidationError as error:
        raise CallMalformed(f"bad arguments for {call.name}: {_faults(error)}") from error


def run_tool(args: AnyArgs, bench: ToolContext) -> ToolOutput:
    """Do what was asked; what goes wrong is told to the model as the tool's output.

    Raises:
        SandboxLost: an outage; the model is not told.
    """
    try:
        output = args.run(bench)
    except (SandboxFileError, ToolRefused) as error:
        output = ToolOutput(f"error: {error}", "error")
    return replace(output, text=truncate_middle(output.text, TOOL_OUTPUT_CAP))


def _tool(name: str, args: type[AnyArgs]) -> Tool:
    schema = args.model_json_schema()
    description = " ".join(str(schema.pop("description")).split())
    return Tool(name=name, description=description, parameters=_untitled(schema))


def _untitled(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without pydantic's titles, which repeat the names and cost tokens."""
    properties = schema["properties"]
    assert isinstance(properties, dict)  # noqa: S101 - tells the type checker
    return {
        **{key: value for key, value in schema.items() if key != "title"},
        "properties": {name: _no_title(prop) for name, prop in properties.items()},
    }


def _no_title(prop: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in prop.items() if key != "title"}


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    return "; ".join(
        ": ".join([*(str(part) for part in fault["loc"]), fault["msg"]]) for fault in faults[:5]
    )
