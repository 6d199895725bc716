"""Versions that a repository asks for: a newer tool will do, an older one is told."""

import pytest

from contracts.sandbox import Command, ExecResult
from nodes.projects.obstacles import version_obstacle
from nodes.projects.types import ProjectFiles
from nodes.projects.versions import node_package, older_tools
from nodes.projects.work import install_project, require_tests
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context, do, put_repo

HAS = {
    "python3": "Python 3.11.2", "node": "v18.20.4", "go": "go1.23.5", "rustc": "rustc 1.85.0 (x)",
    "ruby": "ruby 3.1.2p20 (2022)", "javac": "javac 17.0.15", "php": "PHP 8.2.29 (cli)",
}  # fmt: skip


class Debian(ScriptedSandbox):
    """Has the tools of the images."""

    def exec(self, command: Command, on_output: object = None) -> ExecResult:
        said = HAS.get(command.argv[0])
        return ExecResult(exit_code=0 if said else 127, stdout=(said or "").encode())


def files(**texts: str) -> ProjectFiles:
    by_name = {name.replace("_toml", ".toml"): text for name, text in texts.items()}
    return ProjectFiles(frozenset(by_name), lambda name: by_name[name].encode())


@pytest.mark.parametrize(
    ("name", "text", "older"),
    [
        (".python-version", "3.13.1\n", "python 3.13.1 (.python-version), the sandbox has 3.11.2"),
        (".python-version", "3.11.9\n3.13\n", ""),
        (".python-version", "3.8\n", ""),
        (".python-version", "pypy3.13\n", ""),
        (".tool-versions", "python 3.12.0 # new\njava temurin-21.0.1\n", "python 3.12.0"),
        (".tool-versions", "java temurin-21.0.1\n", "java 21.0.1"),
        (".tool-versions", "golang 1.24\nzig 9\n", "go 1.24"),
        ("mise.toml", "[tools]\nruby = '3.4'\n", "ruby 3.4"),
        ("mise.toml", "[tools]\npython = {version = '3.14'}\n", "python 3.14"),
        ("mise.toml", "[tools]\npython = ['3.11', '3.14']\nnode = 'lts'\n", ""),
        ("go.mod", "module x\n\ngo 1.23.9\n", ""),
        ("go.mod", "module x\n\ngo 1.25\n", "go 1.25 (go.mod), the sandbox has 1.23.5"),
        ("rust-toolchain", "1.90.0\n", "rust 1.90.0 (rust-toolchain)"),
        ("rust-toolchain", "nightly-2025-01-01\n", ""),
        ("rust-toolchain.toml", "[toolchain]\nchannel = '1.90'\n", "rust 1.90"),
        ("rust-toolchain.toml", "[toolchain]\nchannel = 'stable'\n", ""),
        ("package.json", '{"engines": {"node": ">=20"}}', "node 20 (package.json)"),
        ("package.json", '{"engines": {"node": ">=16"}}', ""),
        ("package.json", '{"engines": 3}', ""),
    ],
)
def test_only_a_tool_that_is_older_is_told(name: str, text: str, older: str) -> None:
    with Debian() as sandbox:
        found = older_tools(files(**{name: text}), sandbox)
    assert older in "".join(found.values())
    assert bool(found) == bool(older)


@pytest.mark.parametrize(
    ("engine", "package"),
    [
        (">=20.1", ("npm:node@20",)),
        ("^22 || ^20.9.0 || >=24", ("npm:node@20",)),
        ("24.x", ("npm:node@24",)),
        ("18 || 20 || >=22", ()),
        (">=14", ()),
        (">=14 <17", ()),
        ("^16", ()),
        ("*", ()),
        ("<20", ()),
        ("current", ()),
    ],
)
def test_a_node_that_engines_ask_for_is_installed(engine: str, package: tuple[str, ...]) -> None:
    text = f'{{"engines": {{"node": "{engine}"}}}}'
    assert node_package(files(**{"package.json": text})) == package


def test_a_project_whose_tools_are_older_is_found_and_the_report_says_so(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {".python-version": "3.99\n", "pytest.ini": "", "test_a.py": ""})
    found = do(require_tests, sandbox, {})
    assert found.status == "success"
    assert "the repository asks for python 3.99 (.python-version)" in found.output


def test_a_failed_install_names_the_version_that_the_repository_asks_for(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {".python-version": "3.99\n"})
    failed = install_project(context(sandbox, options={"install": "false"}), sandbox)
    assert "asks for python 3.99 (.python-version), the sandbox has 3." in (failed.error or "")
    assert failed.lacks == ("python",)


def test_a_newer_edition_of_rust_is_a_version_that_the_sandbox_lacks() -> None:
    said = (
        "  feature `edition2024` is required\n\n  The package requires the Cargo feature called "
        "`edition2024`, but that feature is not stabilized in this version of Cargo (1.78.0)."
    )
    found = version_obstacle(said)
    assert found is not None
    assert "uses Rust's edition 2024, the sandbox has cargo 1.78.0" in found.message
