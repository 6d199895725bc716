"""Python projects.

`PYTHONPATH` makes the source tree importable, so tests can run without an install. Without a
network, dependencies come from the image, and the install only adds the package's metadata (its
version and entry points); it needs the build backend in the image, so it may fail. With a network,
the install fetches the dependencies, those for tests included, and must succeed. It goes to a
folder inside `.git`: that is never committed, it is part of snapshots, and site-packages stays as
it is.
"""

import re
import shlex
from pathlib import PurePosixPath

from nodes.projects.ecosystems import PYTHON, PYTHON_SIGNS, ecosystem, toolchain
from nodes.projects.python_locks import locked_versions
from nodes.projects.python_requirements import (
    declares_dependencies,
    extras_for_tests,
    requirements_for_tests,
)
from nodes.projects.types import Online, Project, ProjectFiles, table_at

NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Without it, Python runs stale code after an edit of equal size within the same second."""

_SITE = ".git/harness-site"
_CONSTRAINTS = ".git/harness-constraints.txt"
_PIP = (
    "python3 -m pip install --disable-pip-version-check --no-cache-dir --progress-bar off --upgrade"
)
_OFFLINE = "--no-index --no-build-isolation --no-deps"

_MARKERS = PYTHON_SIGNS
_MAY_NAME_PYTEST = (*_MARKERS, ".pytest.ini", "Pipfile", "conftest.py", "tests/conftest.py")
_REQUIREMENTS = re.compile(r"(requirements/)?[\w.-]*requirements[\w.-]*\.(txt|in)|requirements/.*")
_IMPORTS_TESTS = re.compile(r"^\s*(import|from)\s+(unittest|pytest)\b", re.MULTILINE)
_TEST_FUNCTION = re.compile(r"^(async )?def test(?!_suite\b)", re.MULTILINE)
_TEST_FILE = re.compile(r"test_\w*\.py|\w+_test\.py|tests?\.py")
_TEST_FOLDER = re.compile(r"([\w-]+/)?tests?")
_MAX_TEST_FILES_READ = 10

_PYTEST_INI = ("pytest.ini", ".pytest.ini")
_OTHER_INI = (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"))
_WITH_VALUE = (
    "--cov", "--cov-report", "--cov-config", "--cov-context", "--cov-fail-under", "--cov-precision",
    "-n", "--numprocesses", "--dist", "--maxprocesses", "--maxschedchunk", "--max-worker-restart",
)  # fmt: skip
_PLUGIN_OPTIONS = (*_WITH_VALUE, "--no-cov", "--loadscope-reorder", "--no-loadscope-reorder")


def python_project(files: ProjectFiles, work_dir: str, can_reach: Online) -> Project | None:
    """Return how a Python project is installed and tested, or None if it is no Python project."""
    tests = _test_files(files)
    if not tests and not _has_marker(files):
        return None
    test, why = _test_command(files, tests)
    is_package = _is_package(files)
    # Without anything to fetch, a run needs no network, and its index need not be reached.
    needs_index, index = declares_dependencies(files), ecosystem(PYTHON).index
    online = needs_index and can_reach(index)
    needs = tuple(requirements_for_tests(files)) if online else ()
    extras = f"[{','.join(found)}]" if online and (found := extras_for_tests(files)) else ""
    installable = ".git" in files.names and (is_package or bool(needs))
    source = f"{work_dir}/src" if _has_src_layout(files) else work_dir
    site = f"{work_dir}/{_SITE}"
    itself = ("--editable", f".{extras}") if is_package else ()
    options = () if online else tuple(_OFFLINE.split())
    lock, versions = locked_versions(files) if online else ("", "")
    constraints = f"{work_dir}/{_CONSTRAINTS}"
    options += ("--constraint", constraints) if lock else ()
    install = (*_PIP.split(), *options, "--target", site, *needs, *itself)
    return Project(
        kind="python",
        why=f"{why}; {lock} gives versions" if lock else why,
        install=install if installable else None,
        test=test,
        env={**NO_BYTECODE, "PYTHONPATH": f"{source}:{site}" if installable else source},
        install_optional=not online,
        unreached=index if needs_index and not online else "",
        packages=toolchain(ecosystem(PYTHON), files),
        install_files={constraints: versions} if lock else {},
    )


def is_clearly_python(files: ProjectFiles) -> bool:
    """Return True if there is more evidence than names of test files."""
    texts = map(files.text, _test_files(files)[:_MAX_TEST_FILES_READ])
    return _has_marker(files) or any(map(_IMPORTS_TESTS.search, texts))


def _test_files(files: ProjectFiles) -> list[str]:
    return sorted(name for name in files.names if _TEST_FILE.fullmatch(name.rpartition("/")[2]))


def _has_marker(files: ProjectFiles) -> bool:
    known = {*_MARKERS, "manage.py", "conftest.py"}
    return not known.isdisjoint(files.names) or any(map(_REQUIREMENTS.fullmatch, files.names))


def _is_package(files: ProjectFiles) -> bool:
    pyproject = files.toml("pyproject.toml")
    declared = "build-system" in pyproject or "project" in pyproject
    return declared or bool(table_at(pyproject, "tool", "poetry")) or "setup.py" in files.names


def _has_src_layout(files: ProjectFiles) -> bool:
    inside = {name for name in files.names if name.startswith("src/")}
    return bool(inside) and "src/__init__.py" not in inside


def _test_command(files: ProjectFiles, tests: list[str]) -> tuple[tuple[str, ...] | None, str]:
    candidates = [*_MAY_NAME_PYTEST, *sorted(filter(_REQUIREMENTS.fullmatch, files.names))]
    if named := next((name for name in candidates if "pytest" in files.text(name)), None):
        return _pytest_command(files), f"{named} names pytest"
    if "manage.py" in files.names:
        return ("python3", "manage.py", "test"), "manage.py is Django's"
    if tests and _uses_unittest_only(files, tests) and (command := _unittest_command(files)):
        return command, f"{tests[0]} uses unittest"
    found = tests or sorted(name for name in files.names if _TEST_FOLDER.fullmatch(name))
    if found:
        return _pytest_command(files), f"there is {found[0]}"
    return None, "no file names pytest, and there are no test files or folders"


def _uses_unittest_only(files: ProjectFiles, tests: list[str]) -> bool:
    texts = [files.text(name) for name in tests[:_MAX_TEST_FILES_READ]]
    needs_pytest = any("pytest" in text or _TEST_FUNCTION.search(text) for text in texts)
    return any("unittest" in text for text in texts) and not needs_pytest


def _unittest_command(files: ProjectFiles) -> tuple[str, ...] | None:
    """Return the `unittest discover` command that finds all test files, or None.

    Discovery matches one file name pattern, and it only descends into packages.
    """
    paths = {PurePosixPath(name) for name in files.own if name.endswith(".py")}
    tests = [path for path in paths if _TEST_FILE.fullmatch(path.name)]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    patterns = {"test*.py" if path.name.startswith("test") else "*_test.py" for path in tests}
    if len(patterns) != 1:
        return None
    first = tests[0].parent
    start = next(  # the deepest folder that contains all test files
        one for one in (first, *first.parents) if all(t.is_relative_to(one) for t in tests)
    )
    between = {f for t in tests for f in t.parents if f != start and f.is_relative_to(start)}
    if not between <= packages:
        return None
    where = ["-s", str(start)] if start.name else []
    top = ["-t", "."] if start.name and start in packages else []
    pattern = ["-p", "*_test.py"] if patterns == {"*_test.py"} else []
    return ("python3", "-m", "unittest", "discover", *where, *top, *pattern)


def _pytest_command(files: ProjectFiles) -> tuple[str, ...]:
    """Return the pytest command, without coverage and parallel running.

    Images rarely have those plugins, pytest does not start without them, and they do not change
    whether tests pass.
    """
    addopts = _addopts(files)
    kept = _without_plugins(addopts)
    override = () if kept == addopts else ("-o", f"addopts={shlex.join(kept)}")
    return ("python3", "-m", "pytest", *override)


def _addopts(files: ProjectFiles) -> list[str]:
    """Return the project's `addopts` from the first file that pytest itself would use."""
    for name in _PYTEST_INI:
        if name in files.names:
            return _words(files.ini(name).get("pytest", "addopts", fallback=""))
    options = table_at(files.toml("pyproject.toml"), "tool", "pytest", "ini_options")
    if options:
        return _words(options.get("addopts"))
    for name, section in _OTHER_INI:
        if files.ini(name).has_section(section):
            return _words(files.ini(name).get(section, "addopts", fallback=""))
    return []


def _words(addopts: object) -> list[str]:
    if isinstance(addopts, list):
        return [str(word) for word in addopts]
    try:
        return shlex.split(addopts, comments=True) if isinstance(addopts, str) else []
    except ValueError:
        return []


def _without_plugins(words: list[str]) -> list[str]:
    kept: list[str] = []
    value_follows = False
    for word in words:
        if word.startswith(_PLUGIN_OPTIONS):
            value_follows = word in _WITH_VALUE
            continue
        if not value_follows or word.startswith("-"):
            kept.append(word)
        value_follows = False
    return kept
