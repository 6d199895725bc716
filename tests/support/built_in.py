"""The built-in blueprints, run on small repositories with plain functions for agents."""

from collections.abc import Mapping
from pathlib import Path

from blueprints.engine import execute_blueprint
from blueprints.find import find_blueprint
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from nodes.types import Agentic
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import commit_files
from tests.support.workspace import context

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
SHOP = {
    "src/shop/__init__.py": BROKEN,
    "tests/test_shop.py": "from shop import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "requirements.txt": "pytest\nredis==5.0\n",
}
GOOD_SHOP = {**SHOP, "src/shop/__init__.py": FIXED}


class Agent:
    """Writes files, another set each time it is asked, and keeps the prompts it was given."""

    def __init__(self, *turns: dict[str, str]) -> None:
        self.turns = list(turns)
        self.prompts: dict[str, str] = {}

    def __call__(self, node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        self.prompts[node.name] = node.prompt(ctx)
        for path, text in (self.turns.pop(0) if self.turns else {}).items():
            sandbox.write_file(path, text.encode())
        return NodeResult.success(f"{node.name} done")


class Committing(Agent):
    """Commits what it writes, by itself."""

    def __init__(self, repo: Path, *turns: dict[str, str]) -> None:
        super().__init__(*turns)
        self.repo = repo

    def __call__(self, node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        if texts := self.turns.pop(0):
            commit_files(self.repo, {name: text.encode() for name, text in texts.items()})
        return NodeResult.success()


def run(
    name: str,
    sandbox: ScriptedSandbox,
    agent: Agent,
    *,
    intent: str = "",
    env: Mapping[str, str] | None = None,
    **options: str,
) -> RunReport:
    ctx = context(sandbox, intent=intent, options=options, env=env)
    return execute_blueprint(find_blueprint(name), ctx, sandbox=sandbox, run_agent=agent)


def statuses(report: RunReport) -> dict[str, str]:
    return {node.name: node.status for node in report.nodes}


def output(report: RunReport, name: str) -> str:
    return next(node.output for node in report.nodes if node.name == name)


def change(path: str, text: str) -> dict[str, str]:
    return {path: text}


FIX = change("src/shop/__init__.py", FIXED)
