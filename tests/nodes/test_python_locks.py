"""What a Python project locks is what gets installed."""

from pathlib import Path

import pytest

from nodes.node_sandbox import NodeSandbox
from nodes.projects.find import find_project
from nodes.projects.python_locks import locked_versions
from nodes.projects.types import ProjectFiles
from nodes.projects.work import install_project
from sandbox.scripted import ScriptedSandbox
from tests.support.wheel_index import wheel
from tests.support.workspace import context, folder, put_repo

UV = """
version = 1
[[package]]
name = "shop"
version = "0.1.0"
source = { editable = "." }
[[package]]
name = "dep"
version = "1.0"
source = { registry = "https://index.test/simple" }
[[package]]
name = "forked"
version = "1.0"
source = { registry = "https://index.test/simple" }
[[package]]
name = "forked"
version = "2.0"
source = { registry = "https://index.test/simple" }
"""
POETRY = """
[[package]]
name = "dep"
version = "1.0"
optional = false
[[package]]
name = "mirrored"
version = "2.0"
[package.source]
type = "legacy"
[[package]]
name = "own"
version = "2.0"
[package.source]
type = "git"
[metadata]
lock-version = "2.0"
"""
PDM = """
[metadata]
lock_version = "4.5.0"
[[package]]
name = "dep"
version = "1.0"
[[package]]
name = "own"
version = "2.0"
git = "https://git.test/own.git"
"""
PYLOCK = """
lock-version = "1.0"
[[packages]]
name = "dep"
version = "1.0"
[[packages]]
name = "own"
version = "2.0"
directory = { path = "." }
"""


def locked(name: str, text: str) -> str:
    files = ProjectFiles(frozenset((name,)), lambda _: text.encode())
    return locked_versions(files)[1]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("uv.lock", UV, "dep==1.0\n"),
        ("poetry.lock", POETRY, "dep==1.0\nmirrored==2.0\n"),
        ("pdm.lock", PDM, "dep==1.0\n"),
        ("pylock.toml", PYLOCK, "dep==1.0\n"),
        ("uv.lock", "[[package", ""),
        ("uv.lock", "package = [3, {name = 'a b', version = '1'}, {name = 'a'}]", ""),
        ("Pipfile.lock", "{}", ""),
    ],
)
def test_the_packages_of_an_index_are_locked(name: str, text: str, expected: str) -> None:
    assert locked(name, text) == expected


def test_the_install_takes_the_version_that_is_locked(
    sandbox: ScriptedSandbox, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        (wheels / f"dep-{version}-py3-none-any.whl").write_bytes(wheel("dep", version))
    put_repo(sandbox, {"requirements.txt": "dep\n", "uv.lock": UV, "pytest.ini": ""})
    env = {
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": "/dev/null",
    }
    inside = NodeSandbox(sandbox, env=env, timeout_s=None, sink=lambda line: None)
    installed = install_project(context(sandbox, env=env), inside)
    assert installed.status == "success", installed.error
    assert "dep-1.0" in installed.output
    assert (folder(sandbox) / ".git" / "harness-site" / "dep-1.0.dist-info").exists()


def test_the_choice_of_versions_is_said(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"requirements.txt": "dep\n", "poetry.lock": POETRY, "pytest.ini": ""})
    online = context(sandbox, env={"HTTPS_PROXY": "http://127.0.0.1:9"})
    assert "poetry.lock gives versions" in find_project(online, sandbox).why
