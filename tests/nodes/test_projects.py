"""How projects install and test themselves, found out from small real file sets."""

from dataclasses import replace

import pytest

from contracts.errors import OptionInvalid
from nodes.projects.find import find_project
from nodes.projects.types import Project
from nodes.projects.work import find_dependency_files, look_for_tests, require_tests, run_tests
from sandbox.scripted import ScriptedSandbox
from tests.support.workspace import context, do, folder, put_repo, write

PYTEST = "python3 -m pytest"
UNITTEST = "python3 -m unittest discover"
PASSING = "def test_it(): pass\n"
CASE = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"
JEST = '{"scripts": {"test": "jest"}}'


def found(sandbox: ScriptedSandbox, files: dict[str, str], **options: str) -> Project:
    write(sandbox, files)
    return find_project(context(sandbox, options=options), sandbox)


def cfg(addopts: str) -> str:
    return f"[tool:pytest]\naddopts = {addopts}\n"


@pytest.mark.parametrize(
    ("files", "test"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, PYTEST),
        ({"pytest.ini": "[pytest]\n"}, PYTEST),
        ({"tox.ini": "[testenv]\ncommands = pytest {posargs}\n"}, PYTEST),
        ({"noxfile.py": "def t(s): s.run('pytest')\n"}, PYTEST),
        ({"setup.cfg": "[tool:pytest]\n"}, PYTEST),
        ({"setup.py": "setup(tests_require=['pytest'])\n"}, PYTEST),
        ({"requirements-dev.txt": "pytest>=8\n"}, PYTEST),
        ({"requirements/test.txt": "pytest\n"}, PYTEST),
        ({"conftest.py": "import pytest\n"}, PYTEST),
        ({"app.py": "", "test_app.py": PASSING}, PYTEST),
        ({"setup.py": "", "pkg/tests/deep/test_a.py": CASE}, PYTEST),
        ({"test_app.py": CASE}, UNITTEST),
        ({"tests/test_app.py": CASE}, f"{UNITTEST} -s tests"),
        ({"tests/test_app.py": CASE, "tests/__init__.py": ""}, f"{UNITTEST} -s tests -t ."),
        ({"tests/app_test.py": CASE}, f"{UNITTEST} -s tests -p *_test.py"),
        ({"test_app.py": CASE, "test_b.py": "import pytest\n"}, PYTEST),
        ({"test_app.py": CASE, "test_b.py": PASSING}, PYTEST),
        ({"a/__init__.py": "", "a/test_a.py": CASE, "b/test_b.py": CASE}, PYTEST),
        (
            {"a/__init__.py": "", "a/test_a.py": CASE, "b/__init__.py": "", "b/test_b.py": CASE},
            UNITTEST,
        ),
        ({"test_a.py": CASE, "tests/test_b.py": CASE}, PYTEST),
        ({"tests/test_a.py": CASE, "tests/unit/deep/test_b.py": CASE}, PYTEST),
        ({"tests/test_a.py": CASE, "tests/fixtures/x/test_b.py": CASE}, f"{UNITTEST} -s tests"),
        ({"tests/test_a.py": CASE, "tests/b_test.py": CASE}, PYTEST),
        ({"shop/testing.py": CASE, "tests/test_a.py": CASE}, f"{UNITTEST} -s tests"),
        ({"manage.py": "", "shop/tests.py": CASE}, "python3 manage.py test"),
        ({"package.json": JEST}, "npm run test"),
        ({"package.json": JEST, "tools/testdata.py": "X = 1\n"}, "npm run test"),
        ({"package.json": JEST, "tools/test_release.py": "print(1)\n"}, "npm run test"),
        ({"package.json": JEST, "setup.py": "", "tests/test_a.py": PASSING}, PYTEST),
        ({"package.json": JEST, "tests/test_a.py": CASE}, f"{UNITTEST} -s tests"),
        ({"package.json": "{}", "test_a.py": PASSING}, PYTEST),
        ({"package.json": JEST, "yarn.lock": ""}, "yarn run test"),
        ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, "pnpm run test"),
        ({"Makefile": "test:\n\ttrue\n"}, "make test"),
        ({"Makefile": ".PHONY: all\nall test : x\ncheck: x\n\ttrue\n"}, "make check"),
        ({"Makefile": "test:\n", "pytest.ini": ""}, "make test"),
        ({"Makefile": "test:\n", "test_app.py": PASSING}, PYTEST),
        ({"package.json": "{}", "Makefile": "test:\n"}, "make test"),
    ],
)
def test_the_test_command_is_detected_from_the_files(
    sandbox: ScriptedSandbox, files: dict[str, str], test: str
) -> None:
    assert " ".join(found(sandbox, files).test or ()) == test


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": "run pytest"},
        {"pyproject.toml": "[project]\nname = 'x'\n"},
        {"package.json": "{}"},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"Makefile": "test := 3\nall:\n"},
    ],
)
def test_without_evidence_there_is_no_test_command(
    sandbox: ScriptedSandbox, files: dict[str, str]
) -> None:
    assert found(sandbox, files).test is None


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "a = " + "[" * 50_000},
        {"package.json": "[" * 200_000},
        {"package.json": '{"scripts": ["test"]}'},
        {"package.json": '{"scripts": {"test": 7}}'},
        {"pyproject.toml": "tool = 3\n[project"},
        {"setup.cfg": "no section\n", "tox.ini": "[a\n"},
        {"pyproject.toml": "[tool.pytest]\nini_options = 4\n# x" + "x" * 300_000},
    ],
)
def test_hostile_files_read_as_empty(sandbox: ScriptedSandbox, files: dict[str, str]) -> None:
    assert found(sandbox, files).test is None


def test_a_link_out_of_the_workspace_is_not_read(sandbox: ScriptedSandbox) -> None:
    (folder(sandbox).parent / "secret").write_text("[pytest]")
    (folder(sandbox) / "pytest.ini").symlink_to(folder(sandbox).parent / "secret")
    assert found(sandbox, {}).test is None


@pytest.mark.parametrize(
    ("files", "install"),
    [
        ({"package.json": '{"dependencies": {"a": "1"}}', "package-lock.json": ""}, "npm ci"),
        ({"package.json": '{"devDependencies": {"a": "1"}}', "yarn.lock": ""}, "yarn install"),
        ({"package.json": '{"dependencies": {"a": "1"}}'}, "npm install --no-package-lock"),
    ],
)
def test_a_node_project_installs_by_its_lock_file(
    sandbox: ScriptedSandbox, files: dict[str, str], install: str
) -> None:
    assert " ".join(found(sandbox, files).install or ()).startswith(install)


def test_a_node_project_without_dependencies_installs_nothing(sandbox: ScriptedSandbox) -> None:
    assert found(sandbox, {"package.json": '{"scripts": {"test": "x"}}'}).install is None


def test_a_src_layout_is_importable_without_an_install(sandbox: ScriptedSandbox) -> None:
    project = found(sandbox, {"src/shop/__init__.py": "", "tests/test_a.py": PASSING})
    assert project.env["PYTHONPATH"] == f"{sandbox.work_dir}/src"


def test_requirements_alone_are_nothing_to_install(sandbox: ScriptedSandbox) -> None:
    assert found(sandbox, {"requirements.txt": "pytest\n"}).install is None


def test_the_install_lands_inside_the_git_folder(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    install = found(sandbox, {"pyproject.toml": "[project]\n"}).install or ()
    assert f"{sandbox.work_dir}/.git/harness-site" in install


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"pytest.ini": "[pytest]\naddopts = --cov=x -ra\n"}, ["-o", "addopts=-ra"]),
        ({"pytest.ini": "[pytest]\naddopts = -n auto\n"}, ["-o", "addopts="]),
        ({"setup.cfg": cfg("--cov x --cov-report term -v")}, ["-o", "addopts=-v"]),
        ({"setup.cfg": cfg("--cov -v tests")}, ["-o", "addopts=-v tests"]),
        ({"setup.cfg": cfg("--cov-branch tests --cov=x -v")}, ["-o", "addopts=tests -v"]),
        ({"setup.cfg": cfg("--cov-fail-under 90 --cov-context test")}, ["-o", "addopts="]),
        ({"setup.cfg": cfg("--max-worker-restart 0 --maxfail 3")}, ["-o", "addopts=--maxfail 3"]),
        ({"pytest.ini": "[pytest]\naddopts = -ra\n"}, []),
        ({"pytest.ini": "[pytest]\n", "setup.cfg": "[tool:pytest]\naddopts = --cov\n"}, []),
    ],
)
def test_options_for_coverage_and_xdist_are_removed_from_addopts(
    sandbox: ScriptedSandbox, files: dict[str, str], options: list[str]
) -> None:
    assert list(found(sandbox, files).test or ())[3:] == options


def test_addopts_may_be_a_list(sandbox: ScriptedSandbox) -> None:
    text = '[tool.pytest.ini_options]\naddopts = ["--cov=x", "-m", "not slow"]\n'
    project = found(sandbox, {"pyproject.toml": text})
    assert (project.test or ())[-1] == "addopts=-m 'not slow'"


def test_the_option_test_overrides_the_files(sandbox: ScriptedSandbox) -> None:
    project = found(sandbox, {"pytest.ini": "[pytest]\n"}, test="pytest -q tests/unit")
    assert project.test == ("pytest", "-q", "tests/unit")


def test_an_empty_option_test_means_no_tests(sandbox: ScriptedSandbox) -> None:
    assert found(sandbox, {"pytest.ini": "[pytest]\n"}, test="").test is None


def test_an_empty_option_install_means_no_install(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    project = found(sandbox, {"pyproject.toml": "[project]\n"}, install=" ")
    assert project.install is None


def test_an_option_with_an_open_quote_is_refused(sandbox: ScriptedSandbox) -> None:
    with pytest.raises(OptionInvalid):
        found(sandbox, {}, test="pytest 'tests")


def test_a_project_without_tests_fails_with_a_hint(sandbox: ScriptedSandbox) -> None:
    assert "--set test=" in (do(require_tests, sandbox, {}).error or "")


def test_a_project_without_tests_may_be_skipped(sandbox: ScriptedSandbox) -> None:
    assert do(look_for_tests, sandbox, {}).status == "skipped"


def test_a_missing_test_program_is_named(sandbox: ScriptedSandbox) -> None:
    assert "nope-test" in (do(require_tests, sandbox, {}, test="nope-test -q").error or "")


def test_the_test_command_stays_the_same_during_the_run(sandbox: ScriptedSandbox) -> None:
    found = do(require_tests, sandbox, {"Makefile": "test:\n\t@echo in C; exit 1\n"})
    write(sandbox, {"tools/test_gen.py": CASE, "requirements.txt": "pytest\n"})
    later = context(sandbox, results={"project": found})
    assert run_tests(later, sandbox).output.startswith("in C")
    assert run_tests(replace(later, options={"test": "echo as told"}), sandbox).output == "as told"


def test_the_install_command_survives_deleted_files(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, {"pyproject.toml": "[project]\nname = 'x'\n", "test_a.py": PASSING})
    before = find_project(context(sandbox), sandbox)
    found = require_tests(context(sandbox), sandbox)
    (folder(sandbox) / "pyproject.toml").unlink()
    later = context(sandbox, results={"project": found})
    assert find_project(later, sandbox).install == before.install is not None


def test_require_tests_shows_the_test_command(sandbox: ScriptedSandbox) -> None:
    output = do(require_tests, sandbox, {"pytest.ini": "[pytest]\n"}).output
    assert output.endswith(f" PYTHONPATH={sandbox.work_dir} python3 -m pytest")


def test_dependency_files_are_found_and_vendored_ones_are_not(sandbox: ScriptedSandbox) -> None:
    names = ("web/package.json", "vendor/x/go.mod", "requirements-dev.txt", "src/main.py")
    put_repo(sandbox, dict.fromkeys(names, "x"))
    assert do(find_dependency_files, sandbox, {}).output == "requirements-dev.txt\nweb/package.json"


def test_a_repository_without_dependency_files_is_refused(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    assert "looked for" in (do(find_dependency_files, sandbox, {}).error or "")
