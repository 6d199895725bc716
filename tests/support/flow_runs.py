"""Shared by the tests of flow_runs."""

import json

from blueprints.dsl import agentic, blueprint, deterministic, step, validate
from blueprints.types import Blueprint
from contracts.errors import SandboxLost
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.commands import command, shell
from nodes.types import NodeFunction

WRITE_42 = {
    "content": "",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {
                "name": "write_file",
                "arguments": json.dumps({"path": "answer.txt", "content": "42\n"}),
            },
        }
    ],
}


def a_blueprint(line: str) -> Blueprint:
    return blueprint("one-command", "One command", [deterministic("do", "do it", shell(line))])


def checked() -> Blueprint:
    fix = agentic("mend", "mend it", prompt=lambda ctx: ctx.results["check"].output)
    steps = [step("answer", command("grep", "-qx", "42", "answer.txt"))]
    return blueprint("checked", "Check", [validate("check", "check", steps=steps, on_failure=fix)])


class Outage:
    """Work that adds a line to a file and counts; the first `times` times the sandbox is lost."""

    def __init__(self, times: int = 1) -> None:
        self.left = times
        self.done: list[str] = []

    def adds(self, line: str, *, breaks: bool = False) -> NodeFunction:
        def work(_: RunContext, sandbox: Sandbox) -> NodeResult:
            self.done.append(line)
            sandbox.exec(Command(argv=("sh", "-c", f"echo {line} >> lines.txt")))
            if breaks and self.left:
                self.left -= 1
                raise SandboxLost("the container is gone")
            return NodeResult.success(line)

        return work


def three(outage: Outage) -> Blueprint:
    return blueprint(
        "three",
        "Three lines",
        [
            deterministic("one", "one", outage.adds("one")),
            deterministic("two", "two", outage.adds("two", breaks=True)),
            deterministic("three", "three", outage.adds("three")),
        ],
    )
