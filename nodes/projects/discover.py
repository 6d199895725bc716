"""The one command by which unittest finds all tests of a project, where there is one."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from contracts.sandbox import Command
from nodes.node_sandbox import discard_output
from nodes.projects.files import ProjectFiles

TEST_FILE = re.compile(r"test_\w*\.py|\w+_test\.py|tests?\.py")
"""What a file of Python tests is called."""

_NOT_OURS = (".?*", "node_modules", "vendor", "third_party", "testdata", "fixtures")
_PRUNED = [word for name in _NOT_OURS for word in ("-name", name, "-o")][:-1]
_LISTED = ("-name", "*test*.py", "-o", "-name", "__init__.py")
_LIST = Command(
    argv=("find", ".", "(", *_PRUNED, ")", "-prune", "-o", "(", *_LISTED, ")", "-print0"),
    output_limit=1024 * 1024,
)


def unittest_discover_command(files: ProjectFiles) -> tuple[str, ...] | None:
    """Runs every file of tests, however deep; None where unittest would pass one over.

    It looks for one pattern of names, and into packages only.
    """
    listed = files.sandbox.exec(_LIST, discard_output)
    paths = {PurePosixPath(name) for name in listed.stdout.decode("utf-8", "replace").split("\0")}
    tests = [path for path in paths if TEST_FILE.fullmatch(path.name)]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    patterns = {"test*.py" if path.name.startswith("test") else "*_test.py" for path in tests}
    if listed.truncated or len(patterns) != 1:
        return None
    start = _common([path.parent for path in tests])
    if any(between not in packages for path in tests for between in _below(start, path.parent)):
        return None
    where = ["-s", str(start)] if start.name else []
    top = ["-t", "."] if start.name and start in packages else []
    pattern = ["-p", "*_test.py"] if patterns == {"*_test.py"} else []
    return ("python3", "-m", "unittest", "discover", *where, *top, *pattern)


def _common(folders: list[PurePosixPath]) -> PurePosixPath:
    """The deepest folder that holds all of these."""
    first = folders[0]
    return next(
        one for one in (first, *first.parents) if all(f.is_relative_to(one) for f in folders)
    )


def _below(start: PurePosixPath, folder: PurePosixPath) -> Iterator[PurePosixPath]:
    """The folders on the way from `start` to `folder`, which is one of them unless the same."""
    return (one for one in (folder, *folder.parents) if one != start and one.is_relative_to(start))
