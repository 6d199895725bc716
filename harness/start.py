"""Entry point of the command `harness`: makes sure that our own packages are imported."""

import os
import sys
from pathlib import Path

PACKAGES = (
    "app", "blueprints", "contracts", "flows", "memory", "migrations", "nodes", "policy",
    "providers", "sandbox",
)  # fmt: skip
"""Our top-level packages."""

_OURS = Path(__file__).resolve().parent.parent


def main() -> None:
    """Leave out what would hide our packages, then run the command line."""
    if hidden := leave_out_namesakes():
        print(hidden, file=sys.stderr)  # noqa: T201 - nothing of ours is imported yet
    from app.start import main as run

    run()


def leave_out_namesakes() -> str:
    """Take folders with packages of our names out of PYTHONPATH, also for child processes.

    Return one line that names them; empty if there are none.
    """
    listed = os.environ.get("PYTHONPATH", "")
    found = {entry: _namesakes(Path(entry)) for entry in listed.split(os.pathsep) if entry}
    hiding = {entry: names for entry, names in found.items() if names}
    if not hiding:
        return ""
    kept = [entry for entry in found if entry not in hiding]
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    places = {Path(entry).absolute() for entry in hiding}
    sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() not in places]
    told = "; ".join(f"{entry!r} has {', '.join(names)}" for entry, names in hiding.items())
    return f"note: left out of PYTHONPATH, as packages there have names of Harness's own: {told}"


def _namesakes(folder: Path) -> list[str]:
    if folder.resolve() == _OURS:
        return []
    return [n for n in PACKAGES if (folder / n).is_dir() or (folder / f"{n}.py").is_file()]
