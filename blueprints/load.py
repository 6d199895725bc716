"""Load the Python module that holds a blueprint.

A blueprint is code that runs on the host. It is never loaded from the repository that the
run works on: whoever wrote a branch there, an agent included, could have written it.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from contracts.errors import BlueprintInvalid
from contracts.paths import existing_path


def load_file(place: str, *, repo: str | None) -> ModuleType | None:
    """The module made from a file; None when there is no such file.

    Its folder is not put on `sys.path`: it imports what is installed, not its neighbours.

    Raises:
        BlueprintInvalid: the file lies inside `repo`, or raised while it was loaded.
    """
    try:
        path = _absolute(Path(place).expanduser())
        digest = hashlib.sha256(str(path).encode()).hexdigest()
        is_there = path.is_file()
    except (OSError, RuntimeError, ValueError):  # too long; of no user that there is; no text
        return None
    _refuse_inside(repo, [path], place)
    spec = spec_from_file_location(f"harness_blueprint_{digest[:12]}", path)
    return _load(spec, place) if is_there and spec is not None else None


def load_module(name: str, *, repo: str | None) -> ModuleType | None:
    """The installed module of this dotted name; None when there is no such package.

    Raises:
        BlueprintInvalid: the package lies inside `repo`, or raised while it was loaded.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    first = name.partition(".")[0]
    spec = None if first == "__main__" else find_spec(first)
    if spec is None:
        return None
    _refuse_inside(repo, _places(spec), name)
    with report_load_errors(name):
        return importlib.import_module(name)


@contextmanager
def report_load_errors(ref: str) -> Iterator[None]:
    """Turn whatever foreign code raises while it loads into one clear `BlueprintInvalid`."""
    try:
        yield
    except (Exception, SystemExit) as error:  # foreign code: anything may come
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BlueprintInvalid(f"{ref!r} raised while it was loaded: {said}") from error


def _load(spec: ModuleSpec, place: str) -> ModuleType:
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        with report_load_errors(place):
            if spec.loader is not None:
                spec.loader.exec_module(module)
    except BlueprintInvalid:
        del sys.modules[spec.name]
        raise
    return module


def _places(spec: ModuleSpec) -> list[Path]:
    origin = [spec.origin] if spec.has_location and spec.origin else []
    return [_absolute(Path(place)) for place in (*origin, *(spec.submodule_search_locations or ()))]


def _refuse_inside(repo: str | None, places: Sequence[Path], ref: str) -> None:
    root = _root(repo)
    if root is None:
        return
    on_the_way = [step.resolve() for place in places for step in (place, *place.parents)]
    if any(step.is_relative_to(root) for step in on_the_way):
        raise BlueprintInvalid(
            f"{ref!r} lies inside the target repository {str(root)!r}: a blueprint runs on this "
            "machine, so it is never loaded from the repository it works on. Keep it elsewhere"
        )


def _root(repo: str | None) -> Path | None:
    """The top of the local repository, links resolved; None when it is not a local path."""
    if repo is None:
        return None
    path = existing_path(repo.removeprefix("file://"))
    if path is None:
        return None
    return next((p for p in (path, *path.parents) if (p / ".git").exists()), path)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would hide the links on the way
