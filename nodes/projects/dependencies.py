"""Which files of a repository name what it depends on."""

import re

from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from nodes.commands import command_result
from nodes.node_sandbox import discard_output

_LIST = ("git", "ls-files", "-z")
_FILE = re.compile(
    r"pyproject\.toml|setup\.(py|cfg)|[\w.-]*requirements[\w.-]*\.(txt|in)|Pipfile(\.lock)?"
    r"|poetry\.lock|uv\.lock|pdm\.lock|pylock\.toml|tox\.ini|noxfile\.py|environment\.ya?ml"
    r"|package(-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|go\.(mod|sum)"
    r"|Cargo\.(toml|lock)|Gemfile(\.lock)?|composer\.(json|lock)|pom\.xml|build\.gradle(\.kts)?"
)
_VENDORED = re.compile(r"(^|/)(node_modules|vendor|third_party|testdata|fixtures)/")


def find_dependency_files(_: RunContext, sandbox: Sandbox) -> NodeResult:
    """Preflight: the tracked files that name dependencies, one a line; a failure without any."""
    result = sandbox.exec(Command(argv=_LIST, output_limit=4 * 1024 * 1024), discard_output)
    if not result.ok:
        return command_result(result, _LIST)
    names = result.stdout.decode("utf-8", "replace").split("\0")
    found = [name for name in names if _names_dependencies(name)]
    if not found:
        return NodeResult.failure(
            "no dependency files found: looked for pyproject.toml, setup.py, requirements*.txt, "
            "package.json, go.mod, Cargo.toml, Gemfile, pom.xml and their lock files"
        )
    return NodeResult.success("\n".join(found))


def _names_dependencies(path: str) -> bool:
    return bool(_FILE.fullmatch(path.rpartition("/")[2])) and not _VENDORED.search(path)
