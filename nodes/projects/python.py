"""Python projects.

A sandbox has no network, so dependencies come from the image and nothing is installed to
make the code importable: `PYTHONPATH` points at the source tree, which always works. The
install only adds what a source tree lacks, the package's own metadata (its version, its
entry points). It needs the build backend to be in the image, so it may fail and the tests
still run. It goes to a folder inside `.git`: there it cannot land in the branch, survives
a snapshot, and no site-packages is touched.
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
# Python takes an edit of the same size within the same second for no edit, and runs the old code.
_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
_PIP = "python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-index"
_PIP_OPTIONS = "--no-build-isolation --no-deps --upgrade"


def python_project(files: ProjectFiles, work_dir: str) -> Project | None:
    """How this Python project installs and tests itself; None when it is none."""
    tests = sorted(name for name in files.names if _TEST_FILE.fullmatch(name))
    if not tests and not any(_is_marker(name) for name in files.names):
        return None
    test, why = _test(files, tests)
    installable = ".git" in files.names and _installable(files)
    source = f"{work_dir}/src" if _src_layout(files) else work_dir
    site = f"{work_dir}/{_SITE}"
    install = (*_PIP.split(), *_PIP_OPTIONS.split(), "--target", site, "--editable", ".")
    return Project(
        kind="python",
        why=why,
        install=install if installable else None,
        test=test,
        env={**_NO_BYTECODE, "PYTHONPATH": f"{source}:{site}" if installable else source},
        install_optional=True,
    )


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
