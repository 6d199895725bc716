"""What hatchling wants of the package `editables`, which Debian 12 does not have.

It is copied into the base image, so that `pip install -e .` works there with no network.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path


class EditableProject:
    """The directories that an editable install puts on the module search path."""

    def __init__(self, project_name: str, project_dir: str) -> None:
        self._name = re.sub(r"[-_.]+", "_", project_name)
        self._root = Path(project_dir)
        self._places: set[Path] = set()

    def add_to_path(self, dirname: str) -> None:
        self._places.add(self._root / dirname)

    def map(self, _name: str, target: str) -> None:
        self._places.add((self._root / target).parent)

    def files(self) -> Iterator[tuple[str, str]]:
        yield f"_{self._name}.pth", "\n".join(sorted(map(str, self._places)))

    def dependencies(self) -> Sequence[str]:
        return ()
