"""Requirements of a Python project's tests, besides the package itself.

Pip gets single requirements instead of dependency groups, because an image may have an older pip.
"""

import ast
import re
from collections.abc import Iterator

from nodes.projects.types import ParsedTable, ProjectFiles, table_at

_FOR_TESTS = ("test", "tests", "testing", "dev")
_WORD = "|".join(_FOR_TESTS)
_FILE = re.compile(
    rf"requirements\.txt|requirements[-_/]({_WORD})([-_]requirements)?\.txt"
    rf"|({_WORD})[-_]requirements\.txt"
)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[\w\s.,-]*\])?\s*([<>=!~@(;].*)?")
_TOX_FILE = re.compile(r"(?:-r\s*|--requirement[\s=])(?:\{toxinidir\}/)?(\S+)")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_IN_IMAGE = frozenset(
    ("setuptools", "setuptools-scm", "wheel", "hatchling", "hatch-vcs", "poetry-core", "flit-core")
)
"""Build requirements that the base image has."""
_POETRY_RANGE = re.compile(r"([\^~])\s*(\d+(?:\.\d+)*)")
_PIP_RANGE = re.compile(r"[<>=!~][<>=!~\d\s.,*\w]*")


def requirements_for_tests(files: ProjectFiles) -> Iterator[str]:
    """Yield pip arguments: requirements files, then requirements of test groups and of tox."""
    listed = _narrowest(sorted(filter(_FILE.fullmatch, files.names)))
    lines = list(_tox_lines(files))
    in_tox = (found[1] for found in map(_TOX_FILE.fullmatch, lines) if found)
    for name in dict.fromkeys([*listed, *(name for name in in_tox if name in files.names)]):
        yield from ("--requirement", name)
    pyproject = files.toml("pyproject.toml")
    tools = (*_tool_groups(pyproject), *_nox_requirements(files.text("noxfile.py")))
    named = [*_groups(pyproject), *_poetry_groups(pyproject), *tools, *lines]
    yield from dict.fromkeys(filter(_REQUIREMENT.fullmatch, named))


def declares_dependencies(files: ProjectFiles) -> bool:
    """Return True if the install needs other packages than those of the base image.

    It goes by what the files tell without being run; a setup.py may need any package.
    """
    pyproject = files.toml("pyproject.toml")
    project = table_at(pyproject, "project")
    poetry = set(table_at(pyproject, "tool", "poetry", "dependencies")) - {"python"}
    in_cfg = files.ini("setup.cfg").get("options", "install_requires", fallback="").strip()
    is_dynamic = any("dependencies" in str(name) for name in _strings(project.get("dynamic")))
    build = _strings(table_at(pyproject, "build-system").get("requires"))
    unknown = {_normal(found[0]) for found in map(_NAME.match, build) if found} - _IN_IMAGE
    declared = (project.get("dependencies"), poetry, in_cfg, is_dynamic, unknown)
    for_tests = next(requirements_for_tests(files), None) or extras_for_tests(files)
    return "setup.py" in files.names or any(declared) or bool(for_tests)


def _strings(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def extras_for_tests(files: ProjectFiles) -> list[str]:
    """Return the package's extras that are meant for tests."""
    declared = table_at(files.toml("pyproject.toml"), "project", "optional-dependencies")
    return _narrowest([name for name in _FOR_TESTS if name in declared])


def _narrowest(names: list[str]) -> list[str]:
    """Leave out what is for developers, with linters and builders of docs, if tests have theirs."""
    is_for_tests = any("test" in name for name in names)
    return [name for name in names if not (is_for_tests and "dev" in name)]


def _tox_lines(files: ProjectFiles) -> Iterator[str]:
    for line in files.ini("tox.ini").get("testenv", "deps", fallback="").splitlines():
        yield line.partition(" #")[0].strip()


def _groups(pyproject: ParsedTable) -> Iterator[str]:
    declared = table_at(pyproject, "dependency-groups")
    groups = {_normal(name): group for name, group in declared.items() if isinstance(group, list)}
    wanted = list(_FOR_TESTS)
    for name in wanted:  # the loop appends the groups that a group includes
        for entry in groups.get(name, ()):
            included = _normal(table_at(entry).get("include-group"))
            if isinstance(entry, str):
                yield entry
            elif included not in wanted:
                wanted.append(included)


def _tool_groups(pyproject: ParsedTable) -> Iterator[str]:
    """Yield the requirements for tests in the tables of PDM, uv and Hatch."""
    tool = table_at(pyproject, "tool")
    yield from _strings(table_at(tool, "uv").get("dev-dependencies"))
    pdm = table_at(tool, "pdm", "dev-dependencies")
    environments = table_at(tool, "hatch", "envs")
    for name in _FOR_TESTS:
        yield from _strings(pdm.get(name))
    for name in ("default", "hatch-test", *_FOR_TESTS):
        for key in ("dependencies", "extra-dependencies"):
            yield from _strings(table_at(environments, name).get(key))


def _nox_requirements(noxfile: str) -> Iterator[str]:
    """Yield what sessions of nox install by name, in sessions whose names say test."""
    try:
        tree = ast.parse(noxfile)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    sessions = (one for one in tree.body if isinstance(one, ast.FunctionDef) and "test" in one.name)
    for node in (inner for session in sessions for inner in ast.walk(session)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "install":
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            yield from (word for word in words if isinstance(word, str) and word != ".")


def _normal(name: object) -> str:
    return re.sub(r"[-_.]+", "-", str(name)).lower()


def _poetry_groups(pyproject: ParsedTable) -> Iterator[str]:
    poetry = table_at(pyproject, "tool", "poetry")
    groups = [table_at(poetry, "group", name, "dependencies") for name in _FOR_TESTS]
    for group in (*groups, table_at(poetry, "dev-dependencies")):
        for name, value in group.items():
            spec = value if isinstance(value, dict) else {"version": value}
            if "version" in spec:  # without one it is a path or a URL, which pip cannot get here
                extras = spec.get("extras")
                extra = f"[{','.join(map(str, extras))}]" if isinstance(extras, list) else ""
                yield f"{name}{extra}{_pip_range(str(spec['version']).strip())}"


def _pip_range(version: str) -> str:
    """Return a Poetry version range in pip's form; empty (any version) if pip has no such form."""
    if found := _POETRY_RANGE.fullmatch(version):
        parts = found[2].split(".")
        first = next((n for n, part in enumerate(parts, 1) if part.strip("0")), len(parts))
        same = first if found[1] == "^" else min(2, len(parts))
        return f">={found[2]},=={'.'.join(parts[:same])}.*"
    if version[:1].isdigit() and "|" not in version:
        return f"=={version}"
    return version if _PIP_RANGE.fullmatch(version) else ""
