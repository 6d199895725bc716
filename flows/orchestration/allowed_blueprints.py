"""Blueprints that a form may name: the installed ones and those that the operator lists.

A blueprint is code that runs on the worker's machine. A user who may fill in a form does not
therefore get the right to run code there.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from blueprints.find import find_blueprint, installed_names
from blueprints.types import Blueprint
from contracts.errors import BlueprintNotFound


def find_allowed_blueprint(ref: str, patterns: Sequence[str], *, repo: str) -> Blueprint:
    """Load the blueprint of this name or reference.

    Raises:
        BlueprintNotFound: it does not exist, or no pattern allows the reference.
        BlueprintInvalid: it cannot be loaded, or it lies in `repo`.
    """
    if ":" in ref and not any(_allows(pattern, ref) for pattern in patterns):
        raise BlueprintNotFound(
            f"this deployment may not load the blueprint {ref!r}. Allowed: "
            f"{', '.join((*installed_names(), *patterns))}. Add it to the setting "
            "`allowed_blueprints`"
        )
    return find_blueprint(ref, repo=repo)


def _allows(pattern: str, ref: str) -> bool:
    wanted, _, wanted_attribute = pattern.rpartition(":")
    place, _, attribute = ref.rpartition(":")
    if not fnmatchcase(attribute, wanted_attribute):
        return False
    if not place.endswith(".py"):
        return place == wanted
    path, allowed = Path(place).resolve(), Path(wanted).expanduser()
    return allowed.is_absolute() and path.match(str(allowed))
