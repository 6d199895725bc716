"""A blueprint of six nodes, one of each kind and more, that notes on the host what it does."""

import os
from pathlib import Path

from blueprints.dsl import agentic, blueprint, deterministic, preflight, step, validate
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from nodes.checks import has_tools
from nodes.commands import command, shell
from nodes.types import MakePrompt, NodeFunction

LOG = "CHAOS_LOG"
"""The variable that names the file where each node, step and fix is noted as it begins."""


def _note(name: str) -> None:
    with Path(os.environ[LOG]).open("a") as file:
        file.write(f"{name}\n")


def _noted(name: str, work: NodeFunction) -> NodeFunction:
    def noted(ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        _note(name)
        return work(ctx, sandbox)

    return noted


def _asks(name: str) -> MakePrompt:
    def prompt(_: RunContext) -> str:
        _note(name)
        return "Write the answer."

    return prompt


six_nodes = blueprint(
    "six-nodes",
    "A line, an agent, a check that fails once, another line, a commit",
    [
        preflight("tools", "git is there", _noted("tools", has_tools("git"))),
        deterministic("one", "one", _noted("one", shell("sleep 0.3; echo one >> lines.txt"))),
        agentic("write", "an agent writes", prompt=_asks("write")),
        validate(
            "check",
            "the answer is 42",
            steps=[step("answer", command("grep", "-qx", "42", "answer.txt"))],
            on_failure=agentic("mend", "an agent mends", prompt=_asks("mend (attempt 1)")),
        ),
        deterministic("two", "two", _noted("two", shell("sleep 0.3; echo two >> lines.txt"))),
        deterministic(
            "commit", "commit", _noted("commit", shell("git add --all && git commit -qm Done"))
        ),
    ],
)
