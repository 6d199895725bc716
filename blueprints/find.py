"""Find a blueprint: by name, in a file, or in a package."""

import difflib
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from blueprints.load import load_file, load_module, report_load_errors
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid, BlueprintNotFound

ENTRY_POINT_GROUP = "harness.blueprints"


def find_blueprint(ref: str, *, repo: str | None = None) -> Blueprint:
    """The blueprint that `ref` means: a name, `path/to/file.py:attr` or `package.module:attr`.

    A name is an entry point of the group `harness.blueprints`: built in or installed.
    `repo` is the run's target; when it is a local path, nothing is loaded from inside it.

    Raises:
        BlueprintNotFound: nothing answers to `ref`; the known names are listed.
        BlueprintInvalid: what answers cannot be loaded, is no blueprint, or lies in `repo`.
    """
    place, colon, attribute = ref.rpartition(":")
    if not colon:
        return _installed(ref)
    load = load_file if place.endswith(".py") else load_module
    module = load(place, repo=repo) if place and attribute else None
    if module is None:
        raise BlueprintNotFound(_unknown(ref))
    return _named(module, attribute, ref)


def installed_names() -> tuple[str, ...]:
    """The names of all installed blueprints, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def installed_blueprints() -> dict[str, Blueprint | BlueprintInvalid]:
    """All installed blueprints by name, imported; of one that cannot be loaded, the reason."""
    return {name: _installed_or_not(name) for name in installed_names()}


def _installed(name: str) -> Blueprint:
    points = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == name]
    if not points:
        raise BlueprintNotFound(_unknown(name))
    if len(points) > 1:
        raise BlueprintInvalid(
            f"blueprint {name!r} is installed {len(points)} times, by {_owners(points)}: "
            "uninstall all but one, or name the one you mean as module:name"
        )
    with report_load_errors(name):
        found: object = points[0].load()
    return _checked(found, name)


def _installed_or_not(name: str) -> Blueprint | BlueprintInvalid:
    try:
        return _installed(name)
    except BlueprintInvalid as error:
        return error


def _owners(points: Sequence[EntryPoint]) -> str:
    owners = (repr(point.dist.name) if point.dist else point.value for point in points)
    return " and ".join(sorted(owners))


def _named(module: ModuleType, attribute: str, ref: str) -> Blueprint:
    if attribute not in vars(module):
        there = [name for name, value in vars(module).items() if isinstance(value, Blueprint)]
        raise BlueprintInvalid(
            f"{ref!r}: no {attribute!r} there; its blueprints: {', '.join(there) or 'none'}"
        )
    return _checked(vars(module)[attribute], ref)


def _checked(found: object, ref: str) -> Blueprint:
    if not isinstance(found, Blueprint):
        raise BlueprintInvalid(
            f"{ref!r} is of type {type(found).__name__}, not a Blueprint: "
            "make one with blueprints.dsl.blueprint(…)"
        )
    return found


def _unknown(ref: str) -> str:
    if ref.endswith(".py"):
        return f"no blueprint {ref!r}: say which one in the file, as in {ref + ':name'!r}"
    known = installed_names()
    close = difflib.get_close_matches(ref, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"no blueprint {ref!r}: not built in, not installed, no such file or module.{hint} "
        f"Known: {', '.join(known)}"
    )
