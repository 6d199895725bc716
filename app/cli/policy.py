"""`harness policy`: the files that change only with permission."""

from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line
from flows.config.policy import PolicySettings, load_policy_settings
from policy.guard.protected import is_protected_path, protected_groups, reason_for

app = typer.Typer(no_args_is_help=True)

OF_SETTINGS = "the settings protect it"


@app.callback()
def policy() -> None:
    """Show which files are protected, and why."""


@app.command("protected")
def protected(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Paths from the repository's root to look up.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the protected files with what executes or obeys them, or look up paths."""
    settings = load_policy_settings()
    if paths:
        _look_up(paths, settings, as_json)
        return
    groups = _groups(settings)
    if as_json:
        print_json({"groups": groups, "except": list(settings.protected_except)})
        return
    for name, group in groups.items():
        print_line(f"{name}:")
        for pattern, reason in group.items():
            print_line(f"  {pattern:<32} {reason}")
    for pattern in settings.protected_except:
        print_line(f"except {pattern}")


def _groups(settings: PolicySettings) -> dict[str, dict[str, str]]:
    """Return the patterns in use by group; those that only the settings name come last."""
    used = dict.fromkeys((*settings.protected, *settings.protected_also))
    groups = {
        name: {pattern: reason for pattern, reason in group.items() if pattern in used}
        for name, group in protected_groups().items()
    }
    listed = {pattern for group in groups.values() for pattern in group}
    own = {pattern: OF_SETTINGS for pattern in used if pattern not in listed}
    return {name: group for name, group in {**groups, "settings": own}.items() if group}


def _look_up(paths: list[str], settings: PolicySettings, as_json: bool) -> None:
    found = {
        path: (reason_for(path) or OF_SETTINGS)
        if is_protected_path(path, settings.protected_patterns)
        else None
        for path in paths
    }
    if as_json:
        print_json(found)
        return
    for path, reason in found.items():
        print_line(f"{path}: {f'protected: {reason}' if reason else 'not protected'}")
