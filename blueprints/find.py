"""Find and load a blueprint: by name, from a file, or from a package.

A blueprint decides what runs, and one in Python runs on the host. It is never loaded from the
repository that the run works on, because anyone who can push a branch there, an agent included,
could have written it.
"""

import difflib
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from blueprints.markdown import parse_markdown
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid, BlueprintNotFound
from contracts.files import existing_path
from nodes.field_checks import at
from nodes.node_errors import is_harness

ENTRY_POINT_GROUP = "harness.blueprints"


def find_blueprint(ref: str, *, repo: str | None = None) -> Blueprint:
    """Return the blueprint for a name, `file.md`, `file.py:attribute` or `package:attribute`.

    A name is an entry point of the group `harness.blueprints`, built in or installed. If `repo`,
    the run's repository, is a local path, nothing is loaded from inside it.

    Raises:
        BlueprintNotFound: nothing matches `ref`; the message lists the known names.
        BlueprintInvalid: the match cannot be loaded, is no blueprint, or lies in `repo`.
    """
    if is_markdown(ref):
        return _load_markdown(ref, repo=repo)
    place, colon, attribute = ref.rpartition(":")
    if not colon:
        return _load_installed(ref)
    load = load_file if place.endswith(".py") else _load_module
    module = load(place, repo=repo) if place and attribute else None
    if module is None:
        raise BlueprintNotFound(_not_found(ref))
    if attribute not in vars(module):
        known = [name for name, value in vars(module).items() if isinstance(value, Blueprint)]
        raise BlueprintInvalid(
            f"{ref!r}: no {attribute!r} there; its blueprints: {', '.join(known) or 'none'}"
        )
    return _checked(vars(module)[attribute], ref)


def is_markdown(ref: str) -> bool:
    """Return True if a reference names a Markdown file, which holds one blueprint."""
    return ref.endswith(".md")


def is_name(ref: str) -> bool:
    """Return True if a reference can only be the name of an installed blueprint, not a place."""
    return ":" not in ref and not is_markdown(ref)


def short_name(ref: str) -> str:
    """Return the last part of a reference, such as `tidy` of `ops/tidy.md` and `ops/a.py:tidy`."""
    return Path(ref).stem if is_markdown(ref) else ref.rpartition(":")[2]


def installed_names() -> tuple[str, ...]:
    """Return the sorted names of all installed blueprints without importing them."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def installed_blueprints() -> dict[str, Blueprint | BlueprintInvalid]:
    """Load all installed blueprints and return them by name; the error if one cannot be loaded."""
    found: dict[str, Blueprint | BlueprintInvalid] = {}
    for name in installed_names():
        try:
            found[name] = _load_installed(name)
        except BlueprintInvalid as error:
            found[name] = error
    return found


def load_file(path_text: str, *, repo: str | None) -> ModuleType | None:
    """Load a Python file as a module; return None if there is no such file.

    The file's folder is not added to `sys.path`: it can import only installed packages.

    Raises:
        BlueprintInvalid: the file lies inside `repo`, or raised an error.
    """
    path = _find_file(path_text, repo=repo)
    if path is None:
        return None
    # Files of the same name in two folders are two modules.
    digest = hashlib.sha256(str(path).encode()).hexdigest()
    spec = spec_from_file_location(f"harness_blueprint_{digest[:12]}", path)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their own module
    try:
        with _report_load_errors(path_text):
            spec.loader.exec_module(module)
    except BlueprintInvalid:
        del sys.modules[spec.name]
        raise
    return module


def _load_markdown(ref: str, *, repo: str | None) -> Blueprint:
    path = _find_file(ref, repo=repo)
    if path is None:
        raise BlueprintNotFound(f"no blueprint {ref!r}: there is no such file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BlueprintInvalid(f"{path}: the file cannot be read: {error}") from error
    return parse_markdown(text, ref)


def _find_file(path_text: str, *, repo: str | None) -> Path | None:
    """Return the absolute path of a file; None if there is none.

    Raises:
        BlueprintInvalid: the path leads into `repo`.
    """
    try:
        path = _absolute(Path(path_text).expanduser())
        str(path).encode()
        exists = path.is_file()
    except (OSError, RuntimeError, ValueError):  # too long, an unknown user's home, not UTF-8
        return None
    _refuse_inside(repo, [path], path_text)
    return path if exists else None


def _load_module(name: str, *, repo: str | None) -> ModuleType | None:
    # find_spec raises on an empty name, such as that of ".x".
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    # Only the top package: find_spec of a submodule would import its parents, which is code.
    package = name.partition(".")[0]
    spec = None if package == "__main__" else find_spec(package)
    if spec is None:
        return None
    origin = [spec.origin] if spec.has_location and spec.origin else []
    places = [Path(place) for place in (*origin, *(spec.submodule_search_locations or ()))]
    _refuse_inside(repo, [_absolute(place) for place in places], name)
    with _report_load_errors(name):
        return importlib.import_module(name)


def _load_installed(name: str) -> Blueprint:
    points = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == name]
    if not points:
        raise BlueprintNotFound(_not_found(name))
    if len(points) > 1:
        packages = (repr(point.dist.name) if point.dist else point.value for point in points)
        raise BlueprintInvalid(
            f"blueprint {name!r} is installed {len(points)} times, by "
            f"{' and '.join(sorted(packages))}: "
            "uninstall all but one, or name the one you mean as module:name"
        )
    with _report_load_errors(name):
        found: object = points[0].load()
    return _checked(found, name)


@contextmanager
def _report_load_errors(ref: str) -> Iterator[None]:
    try:
        yield
    except BlueprintInvalid:
        raise
    except (Exception, SystemExit) as error:  # the blueprint's own code can raise anything
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        problem = f"{ref!r} raised while it was loaded: {first_line}"
        raise BlueprintInvalid(at(_place(error), problem)) from error


def _place(error: BaseException) -> str:
    """Return file and line of the first frame that is neither ours nor of the import system."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if not is_harness(module) and not module.startswith(("importlib", "_frozen_importlib")):
            return f"{frame.f_code.co_filename}:{line}"
    return ""


def _refuse_inside(repo: str | None, places: Sequence[Path], ref: str) -> None:
    path = None if repo is None else existing_path(repo.removeprefix("file://"))
    if path is None:
        return
    root = next((p for p in (path, *path.parents) if (p / ".git").exists()), path)
    # A link anywhere on the way may lead into the repository, so every parent is resolved.
    on_the_way = [step.resolve() for place in places for step in (place, *place.parents)]
    if any(step.is_relative_to(root) for step in on_the_way):
        raise BlueprintInvalid(
            f"{ref!r} lies inside the target repository {str(root)!r}: a blueprint runs on this "
            "machine, so it is never loaded from the repository it works on. Keep it elsewhere"
        )


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would hide the links on the way


def _checked(found: object, ref: str) -> Blueprint:
    if not isinstance(found, Blueprint):
        raise BlueprintInvalid(
            f"{ref!r} is of type {type(found).__name__}, not a Blueprint: "
            "make one with blueprints.dsl.blueprint(…)"
        )
    return found


def _not_found(ref: str) -> str:
    if ref.endswith(".py"):
        return f"no blueprint {ref!r}: say which one in the file, as in {ref + ':name'!r}"
    known = installed_names()
    close = difflib.get_close_matches(ref, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"no blueprint {ref!r}: not built in, not installed, no such file or module.{hint} "
        f"Known: {', '.join(known)}"
    )
