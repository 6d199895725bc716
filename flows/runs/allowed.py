"""Which blueprints a deployment may name. A blueprint is code, and runs on the worker's machine."""

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from blueprints.find import is_markdown, is_name


def may_load(ref: str, patterns: Sequence[str], installed: Collection[str]) -> bool:
    """Return True if `ref` is the name of an installed blueprint, or a pattern allows it."""
    if is_name(ref):
        return ref in installed
    return any(_allows(pattern, ref) for pattern in patterns)


def _allows(pattern: str, ref: str) -> bool:
    if is_markdown(ref):
        return _path_allows(pattern, ref)
    wanted, _, wanted_attribute = pattern.rpartition(":")
    place, _, attribute = ref.rpartition(":")
    if not fnmatchcase(attribute, wanted_attribute):
        return False
    if not place.endswith(".py"):
        return place == wanted
    return _path_allows(wanted, place)


def _path_allows(pattern: str, place: str) -> bool:
    path, allowed = Path(place).resolve(), Path(pattern).expanduser()
    return allowed.is_absolute() and path.match(str(allowed))
