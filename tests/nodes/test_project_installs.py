"""What becomes of a project that can or cannot be installed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.sandbox import EXCLUDES
from nodes.node_sandbox import NodeSandbox
from nodes.projects.find import find_project
from nodes.projects.testing import exec_tests
from nodes.projects.work import install_project, rebuild, require_tests, run_tests
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import run_git
from tests.support.workspace import context, do, folder, put_repo, write

PASSING = "def test_it(): pass\n"
CASE = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"


def test_a_failed_offline_install_does_not_fail_a_python_run(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox)
    text = "[build-system]\nrequires = ['nope']\nbuild-backend = 'nope'\n"
    result = do(install_project, sandbox, {"pyproject.toml": text})
    assert result.output.startswith("could not be installed; the tests run from the source")


def test_a_missing_compiler_fails_even_an_optional_install(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox)
    setup = (
        "import sys\nsys.exit(\"error: command 'no-such-cc' failed: No such file or directory\")\n"
    )
    result = do(install_project, sandbox, {"setup.py": setup})
    assert result.status == "failure"
    assert "not in the sandbox: no-such-cc. " in str(result.error)
    assert "--set install= skips it" in str(result.error)


def test_with_a_network_the_install_must_succeed(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"requirements.txt": "nope\n", "test_a.py": PASSING})
    env = {"HTTPS_PROXY": "http://127.0.0.1:9", "PIP_NO_INDEX": "1"}
    inside = NodeSandbox(sandbox, env=env, timeout_s=None, sink=lambda line: None)
    result = install_project(context(sandbox, env=env), inside)
    assert "--set install= skips it" in (result.error or "")


def test_an_install_leaves_nothing_in_the_work_tree(
    sandbox: ScriptedSandbox, tmp_path: Path
) -> None:
    put_repo(sandbox)
    backend = "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n"
    text = f"{backend}[project]\nname = 'shop'\nversion = '1.2'\n"
    write(sandbox, {"pyproject.toml": text, "shop/__init__.py": ""})
    env = {"HOME": str(tmp_path)}
    at_home = NodeSandbox(sandbox, env=env, timeout_s=None, sink=lambda line: None)
    assert install_project(context(sandbox), at_home).status == "success"
    assert {path.name for path in folder(sandbox).iterdir()} == {
        ".git", "hello.txt", "pyproject.toml", "shop",
    }  # fmt: skip


def test_an_installed_project_has_its_version(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    backend = "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n"
    files = {
        "pyproject.toml": f"{backend}[project]\nname = 'shop'\nversion = '1.2'\n",
        "src/shop/__init__.py": "import importlib.metadata as m\nV = m.version('shop')\n",
        "tests/test_v.py": "from shop import V\ndef test_it(): assert V == '1.2'\n",
    }
    assert do(install_project, sandbox, files).status == "success"
    assert do(run_tests, sandbox, {}).status == "success"


def test_an_install_command_from_an_option_must_succeed(sandbox: ScriptedSandbox) -> None:
    result = do(install_project, sandbox, {"pytest.ini": ""}, install="false")
    assert "no network" in (result.error or "")


def test_nothing_to_install_is_skipped(sandbox: ScriptedSandbox) -> None:
    assert do(install_project, sandbox, {"pytest.ini": ""}).status == "skipped"


@pytest.mark.parametrize(
    ("install", "test"),
    [
        ("python3 -m venv --without-pip .venv", ".venv/bin/python -m unittest test_a"),
        ("touch nox.py", "python3 -m nox"),
    ],
)
def test_the_install_may_bring_the_test_runner(
    sandbox: ScriptedSandbox, install: str, test: str
) -> None:
    write(sandbox, {"test_a.py": CASE})
    for work in (require_tests, install_project, run_tests):
        assert do(work, sandbox, {}, install=install, test=test).error is None


@pytest.mark.parametrize(
    ("test", "missing"), [("node_modules/.bin/jest", "jest"), ("python3 -m nox", "nox")]
)
def test_an_install_without_the_test_runner_fails(
    sandbox: ScriptedSandbox, test: str, missing: str
) -> None:
    error = do(install_project, sandbox, {}, install="true", test=test).error or ""
    assert missing in error


def test_a_missing_installer_fails_the_preflight(sandbox: ScriptedSandbox) -> None:
    told = do(require_tests, sandbox, {}, install="nope-install", test="tox")
    assert "nope-install" in (told.error or "")


GROUPS = """
[dependency-groups]
test = ["pytest", {include-group = "Web_App"}, {include-group = "test"}, 3, "-e ."]
web-app = ["responses>=0.2", "pytest"]
docs = ["sphinx"]
"""
POETRY = """
[tool.poetry.group.dev.dependencies]
pytest = "^7.1"
tiny = {version = "~0.2.3", extras = ["a"]}
early = "^0.0.3"
fixed = "1.2"
any = "*"
odd = ">=1,<2 || 5"
range = ">=1,<2"
here = {path = "../here"}
[tool.poetry.group.docs.dependencies]
sphinx = "*"
"""
TOX = """
[testenv]
deps =
    pytest
    -r{toxinidir}/ci.txt
    -r gone.txt
    py38: old
    responses<1 # newer ones are broken
    {[base]deps}
"""


@pytest.mark.parametrize(
    ("files", "needs"),
    [
        ({"pyproject.toml": GROUPS}, ["pytest", "responses>=0.2"]),
        (
            {"pyproject.toml": POETRY},
            ["pytest>=7.1,==7.*", "tiny[a]>=0.2.3,==0.2.*", "early>=0.0.3,==0.0.3.*",
             "fixed==1.2", "any", "odd", "range>=1,<2"],
        ),
        ({"tox.ini": TOX, "ci.txt": ""}, ["--requirement", "ci.txt", "pytest", "responses<1"]),
        ({"test.txt": "hello", "requirements/ci.txt": ""}, []),
        ({"requirements/dev.txt": ""}, ["--requirement", "requirements/dev.txt"]),
        (
            {"requirements/dev.txt": "", "requirements/tests.txt": ""},
            ["--requirement", "requirements/tests.txt"],
        ),
        ({"dev-requirements.txt": ""}, ["--requirement", "dev-requirements.txt"]),
        ({"dev.txt": "", "pyproject.toml": "dependency-groups = 3\ntool.poetry.group = 'x'\n"}, []),
    ],
)  # fmt: skip
def test_with_a_network_the_install_includes_test_requirements(
    sandbox: ScriptedSandbox, files: dict[str, str], needs: list[str]
) -> None:
    put_repo(sandbox)
    write(sandbox, files)
    online = context(sandbox, env={"HTTPS_PROXY": "http://127.0.0.1:9"})
    _, _, asked = " ".join(find_project(online, sandbox).install or ()).partition("harness-site")
    assert asked.removesuffix(" --editable .").split() == needs


class NoIndex:
    """`Installs` of a machine that reaches no package index."""

    def unreachable(self, index: str) -> str:
        return f"{index}.test: the name does not resolve"

    @contextmanager
    def network(self, _: Collection[str]) -> Iterator[Mapping[str, str] | None]:
        yield {}

    def kept(self, _: Sequence[str]) -> str | None:
        return None

    def keep(self, _: Sequence[str], after: Collection[str]) -> None:
        raise AssertionError(f"kept after {after}")


def test_a_failed_install_names_the_index_that_cannot_be_reached(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"Gemfile": "", "Rakefile": "task :test"})
    ctx = replace(context(sandbox), installs=NoIndex())
    ctx = replace(ctx, options={"install": "false"})
    found = require_tests(ctx, sandbox)
    assert "the package index of ruby cannot be reached: ruby.test: the name" in found.output
    failed = install_project(ctx, sandbox)
    assert "ruby.test: the name does not resolve. Let this machine reach it" in (failed.error or "")
    assert failed.lacks == ("index of ruby",)


def test_libraries_that_could_not_be_fetched_are_not_the_agent_s_to_fix(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {"requirements.txt": "zork\n", "test_a.py": "import zork.b\n" + PASSING})
    tests = exec_tests(replace(context(sandbox), installs=NoIndex()), sandbox)
    assert not tests.verdict
    assert "the sandbox lacks zork; the package index of python" in (tests.result.error or "")


def test_a_module_of_the_project_s_own_is_the_agent_s_to_fix(sandbox: ScriptedSandbox) -> None:
    files = {"requirements.txt": "x\n", "shop/a.py": "", "test_a.py": "import shop.b\n" + PASSING}
    put_repo(sandbox, files)
    assert exec_tests(replace(context(sandbox), installs=NoIndex()), sandbox).verdict


def test_without_its_index_a_project_uses_what_the_image_has(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"Gemfile": "", ".rspec": ""})
    project = find_project(replace(context(sandbox), installs=NoIndex()), sandbox)
    assert "exec bundle install --local" in str(project.install)
    assert project.test == ("rspec",)


SETUP = """
import pathlib
from setuptools import setup
pathlib.Path("built.py").write_text(f"VALUE = {pathlib.Path('value.c').read_text()}")
setup(name="shop", version="1.0", py_modules=["built"])
"""


def test_what_an_install_compiles_is_built_anew_after_a_change(sandbox: ScriptedSandbox) -> None:
    place = put_repo(sandbox, {"setup.py": SETUP, "value.c": "1", ".gitignore": "built.py\n"})
    base = run_git(place, "rev-parse", "HEAD")
    assert do(install_project, sandbox, {}).status == "success"
    write(sandbox, {"notes.txt": "no source"})
    rebuild(base, context(sandbox), sandbox)
    assert (place / "built.py").read_text() == "VALUE = 1"
    write(sandbox, {"value.c": "2"})
    rebuild(base, context(sandbox), sandbox)
    assert (place / "built.py").read_text() == "VALUE = 2"


def test_npm_does_not_retry_an_index_that_cannot_be_reached(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"package.json": '{"dependencies": {"ms": "2"}}'})
    ctx = replace(context(sandbox), installs=NoIndex())
    line = "echo retries $npm_config_fetch_retries; exit 1"
    failed = install_project(replace(ctx, options={"install": line}), sandbox)
    assert "retries 0" in failed.output


def test_a_wrong_version_is_named_before_an_index_that_cannot_be_reached(
    sandbox: ScriptedSandbox,
) -> None:
    put_repo(sandbox, {"package.json": '{"dependencies": {"ms": "2"}}'})
    ctx = replace(context(sandbox), installs=NoIndex())
    said = "error: Source option 6 is no longer supported. Use 7 or later."
    ctx = replace(ctx, options={"install": f"sh -c 'echo {said}; exit 1'"})
    assert install_project(ctx, sandbox).lacks == ("java",)


def test_what_an_install_made_does_not_change_what_the_project_is(
    sandbox: ScriptedSandbox,
) -> None:
    place = put_repo(sandbox, {"configure.ac": "", "autogen.sh": "touch configure Makefile\n"})
    run_git(place, "config", "core.excludesFile", f"{sandbox.work_dir}/{EXCLUDES}")
    before = find_project(context(sandbox), sandbox)
    made = "sh -c 'touch configure Makefile'"
    assert do(install_project, sandbox, {}, install=made).status == "success"
    assert find_project(context(sandbox), sandbox) == before
