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

from nodes.projects.files import ProjectFiles, table
from nodes.projects.pytest_options import pytest_options
from nodes.projects.types import Project

_SITE = ".git/harness-site"
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini")
_SPEAKING = (*_MARKERS, ".pytest.ini", "Pipfile", "conftest.py", "tests/conftest.py")
_REQUIREMENTS = re.compile(r"(requirements/)?[\w.-]*requirements[\w.-]*\.(txt|in)|requirements/.*")
_TEST_FILE = re.compile(r"([\w-]+/)?(test\w*|\w+_test)\.py")
_TEST_FOLDER = re.compile(r"([\w-]+/)?tests?")
_TEST_FILES_READ = 10
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes an edit of the same size within one second for no edit, and runs the old code."""

_PIP = "python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --upgrade"
_OFFLINE = "--no-index --no-build-isolation --no-deps"
_TEST_NEEDS = re.compile(
    r"requirements\.txt|(requirements[-_/])?(test|tests|testing|dev)([-_]requirements)?\.txt"
)
_TEST_EXTRAS = ("test", "tests", "testing", "dev")


def python_project(files: ProjectFiles, work_dir: str, *, online: bool) -> Project | None:
    """How this Python project installs and tests itself; None when it is none."""
    tests = sorted(name for name in files.names if _TEST_FILE.fullmatch(name))
    if not tests and not any(_is_marker(name) for name in files.names):
        return None
    test, why = _test(files, tests)
    package = _installable(files)
    needs = tuple(_needs(files)) if online else ()
    installable = ".git" in files.names and (package or bool(needs))
    source = f"{work_dir}/src" if _src_layout(files) else work_dir
    site = f"{work_dir}/{_SITE}"
    own = ("--editable", _with_extras(files) if online else ".") if package else ()
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


def _needs(files: ProjectFiles) -> Iterator[str]:
    for name in sorted(filter(_TEST_NEEDS.fullmatch, files.names)):
        yield from ("--requirement", name)


def _with_extras(files: ProjectFiles) -> str:
    declared = table(files.toml("pyproject.toml"), "project", "optional-dependencies")
    extras = [name for name in _TEST_EXTRAS if name in declared]
    return f".[{','.join(extras)}]" if extras else "."


def _test(files: ProjectFiles, tests: list[str]) -> tuple[tuple[str, ...] | None, str]:
    if named := next(_names_pytest(files), None):
        return _pytest(files), f"{named} names pytest"
    if "manage.py" in files.names:
        return ("python3", "manage.py", "test"), "manage.py is Django's"
    if tests and _plain_unittest(files, tests):
        return _unittest(files, tests[0]), f"{tests[0]} uses unittest"
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
    return any("unittest" in text for text in texts) and not any("pytest" in t for t in texts)


def _unittest(files: ProjectFiles, test: str) -> tuple[str, ...]:
    folder = test.rpartition("/")[0]
    where = ["-s", folder] if folder else []
    if f"{folder}/__init__.py" in files.names:
        where += ["-t", "."]
    pattern = ["-p", "*_test.py"] if test.endswith("_test.py") else []
    return ("python3", "-m", "unittest", "discover", *where, *pattern)


def _is_marker(name: str) -> bool:
    return name in (*_MARKERS, "manage.py", "conftest.py") or bool(_REQUIREMENTS.fullmatch(name))


def _installable(files: ProjectFiles) -> bool:
    pyproject = files.toml("pyproject.toml")
    declared = "build-system" in pyproject or "project" in pyproject
    return declared or bool(table(pyproject, "tool", "poetry")) or "setup.py" in files.names


def _src_layout(files: ProjectFiles) -> bool:
    inside = {name for name in files.names if name.startswith("src/")}
    return bool(inside) and "src/__init__.py" not in inside
