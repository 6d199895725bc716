"""What every tool of the native agent works with, and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.node_sandbox import discard_output


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The sandbox as a tool sees it. `left_s` tells the seconds until the agent must end."""

    sandbox: Sandbox
    left_s: Callable[[], float]

    def run(self, *argv: str, timeout_s: float) -> ExecResult:
        """Run argv, without live output, for `timeout_s` or what is left, if that is less."""
        timeout_s = max(0.1, min(timeout_s, self.left_s()))
        return self.sandbox.exec(Command(argv=argv, timeout_s=timeout_s), discard_output)


@dataclass(frozen=True)
class ToolOutput:
    """`text` is for the model; `note` is two or three words for the live line."""

    text: str
    note: str


class ToolRefused(Exception):
    """The tool cannot do that; the message tells the model what to do instead."""


class ToolArgs(BaseModel):
    """Arguments as a model writes them; unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not hold a NUL character")
    return text


NoNulText = Annotated[str, AfterValidator(_no_nul)]
"""Text that can be part of a command line."""
