"""Python projects.

Nothing is installed to make the code importable: `PYTHONPATH` points at the source tree,
which always works. Without a network, dependencies come from the image, and the install only
adds the package's own metadata (its version, its entry points); it needs the build backend
to be in the image, so it may fail and the tests still run. With a way out, the install brings
the dependencies, those for tests included, and must work. It goes to a folder inside `.git`:
there it cannot land in the branch, survives a snapshot, and no site-packages is touched.
"""

import re
from collections.abc import Iterator

from nodes.projects.discover import TEST_FILE, unittest_discover_command
from nodes.projects.files import ProjectFiles, table_at
from nodes.projects.pytest_options import pytest_options
from nodes.projects.python_requirements import extras_for_tests, requirements_for_tests
from nodes.projects.types import Project

_SITE = ".git/harness-site"
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini")
_SPEAKING = (*_MARKERS, ".pytest.ini", "Pipfile", "conftest.py", "tests/conftest.py")
_REQUIREMENTS = re.compile(r"(requirements/)?[\w.-]*requirements[\w.-]*\.(txt|in)|requirements/.*")
_IMPORTS_TESTS = re.compile(r"^\s*(import|from)\s+(unittest|pytest)\b", re.MULTILINE)
_BARE_TEST = re.compile(r"^(async )?def test(?!_suite\b)", re.MULTILINE)
_TEST_FOLDER = re.compile(r"([\w-]+/)?tests?")
_TEST_FILES_READ = 10
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes an edit of the same size within one second for no edit, and runs the old code."""

_PIP = "python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --upgrade"
_OFFLINE = "--no-index --no-build-isolation --no-deps"


def python_project(files: ProjectFiles, work_dir: str, *, online: bool) -> Project | None:
    """How this Python project installs and tests itself; None when it is none."""
    tests = _tests(files)
    if not tests and not _has_marker(files):
        return None
    test, why = _test(files, tests)
    package = _installable(files)
    needs = tuple(requirements_for_tests(files)) if online else ()
    extras = f"[{','.join(found)}]" if online and (found := extras_for_tests(files)) else ""
    installable = ".git" in files.names and (package or bool(needs))
    source = f"{work_dir}/src" if _src_layout(files) else work_dir
    site = f"{work_dir}/{_SITE}"
    own = ("--editable", f".{extras}") if package else ()
    options = () if online else _OFFLINE.split()
    install = (*_PIP.split(), *options, "--target", site, *needs, *own)
    return Project(
        kind="python",
        why=why,
        install=install if installable else None,
        test=test,
        env={**NO_BYTECODE, "PYTHONPATH": f"{source}:{site}" if installable else source},
        install_optional=not online,
    )


def is_clearly_python(files: ProjectFiles) -> bool:
    """Whether more than the name of a test file says that this is a Python project."""
    read = map(files.text, _tests(files)[:_TEST_FILES_READ])
    return _has_marker(files) or any(map(_IMPORTS_TESTS.search, read))


def _tests(files: ProjectFiles) -> list[str]:
    """The test files at the top and one level down."""
    return sorted(name for name in files.names if TEST_FILE.fullmatch(name.rpartition("/")[2]))


def _test(files: ProjectFiles, tests: list[str]) -> tuple[tuple[str, ...] | None, str]:
    if named := next(_names_pytest(files), None):
        return _pytest(files), f"{named} names pytest"
    if "manage.py" in files.names:
        return ("python3", "manage.py", "test"), "manage.py is Django's"
    if tests and _plain_unittest(files, tests) and (command := unittest_discover_command(files)):
        return command, f"{tests[0]} uses unittest"
    found = tests or sorted(name for name in files.names if _TEST_FOLDER.fullmatch(name))
    if found:
        return _pytest(files), f"there is {found[0]}"
    return None, "no file names pytest, and there are no test files or folders"


def _pytest(files: ProjectFiles) -> tuple[str, ...]:
    return ("python3", "-m", "pytest", *pytest_options(files))


def _names_pytest(files: ProjectFiles) -> Iterator[str]:
    candidates = [*_SPEAKING, *sorted(filter(_REQUIREMENTS.fullmatch, files.names))]
    return (name for name in candidates if "pytest" in files.text(name))


def _plain_unittest(files: ProjectFiles, tests: list[str]) -> bool:
    texts = [files.text(name) for name in tests[:_TEST_FILES_READ]]
    needs_pytest = any("pytest" in text or _BARE_TEST.search(text) for text in texts)
    return any("unittest" in text for text in texts) and not needs_pytest


def _has_marker(files: ProjectFiles) -> bool:
    known = {*_MARKERS, "manage.py", "conftest.py"}
    return not known.isdisjoint(files.names) or any(map(_REQUIREMENTS.fullmatch, files.names))


def _installable(files: ProjectFiles) -> bool:
    pyproject = files.toml("pyproject.toml")
    declared = "build-system" in pyproject or "project" in pyproject
    return declared or bool(table_at(pyproject, "tool", "poetry")) or "setup.py" in files.names


def _src_layout(files: ProjectFiles) -> bool:
    inside = {name for name in files.names if name.startswith("src/")}
    return bool(inside) and "src/__init__.py" not in inside
