"""`HARNESS_HOME`: its owner name, its permissions, and the files in it.

Each run has a folder of its own, `HARNESS_HOME/runs/<run id>`:

run.json          the request, and the process that executes it       flows/runs/run_record.py
lock              held while a process executes the run               flows/runs/run_record.py
turn              held while a process waits for the lock             flows/runs/run_record.py
checkpoint.json   finished nodes; exists while the run can be resumed flows/runs/checkpoints.py
trajectory.jsonl  requests to models and their replies                providers/trajectory.py
egress.jsonl      hosts that commands tried to reach, and the answer  flows/execution/sandboxes.py
diff.patch        the whole diff of the work                          flows/runs/runs.py
report.json       the outcome; removed while the run is resumed       flows/runs/runs.py
untold.json       exists until memory has recorded the report         flows/execution/reconcile.py
state-not-set     exists until the flow run has the report's state    flows/execution/end_state.py
"""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import get_ident

from contracts.errors import HomeUnavailable, RunNotFound
from contracts.files import write_atomically
from sandbox.redaction import redact_url

RECORD = "run.json"
LOCK = "lock"
TURN = "turn"
CHECKPOINT = "checkpoint.json"
KEPT = "kept.json"
"""The checkpoint of a run that is over and goes on if its pull request is commented on."""
TRAJECTORY = "trajectory.jsonl"
EGRESS = "egress.jsonl"
DIFF = "diff.patch"
REPORT = "report.json"
UNRECORDED = "untold.json"
STATE_NOT_SET = "state-not-set"


def create_home(home: Path) -> None:
    """Create the home if it is missing, readable by this user only.

    Raises:
        HomeUnavailable: as `check_home`.
    """
    check_home(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_home(home: Path) -> None:
    """Check that the home can be written, without creating it.

    Raises:
        HomeUnavailable: it is no folder, cannot be created, or cannot be written.
    """
    try:
        there = next(p for p in (home, *home.parents) if p.is_symlink() or p.exists())
        with TemporaryDirectory(prefix=".harness-", dir=there):
            pass
    except OSError as error:
        raise HomeUnavailable(
            f"cannot write in {home}: {error.strerror}. Fix its permissions, or choose another "
            "HARNESS_HOME"
        ) from error


def write_in_home(path: Path, text: str, *, run_id: str) -> None:
    """Write a file of a run atomically. Only this user may read it: an address may hold a password.

    Raises:
        HomeUnavailable: it cannot be written. The old file is unchanged.
    """
    try:
        write_atomically(path, text, private=True)
    except OSError as error:
        raise HomeUnavailable(
            f"{path} cannot be written: {error.strerror}. Free some space, then run "
            f"`harness runs resume {run_id}`"
        ) from error


def home_owner(home: Path) -> str:
    """Return the name of this home, used as the owner of its containers, approvals and events."""
    return read_or_create(home / "owner", token_hex(8))


def read_or_create(path: Path, text: str) -> str:
    """Return the content of the file; create it with `text` for this user only if it is missing.

    If several processes create it at once, all of them return the same content.

    Raises:
        HomeUnavailable: the folder cannot be written.
    """
    if not path.exists():
        create_home(path.parent)
        part = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}")
        part.touch(mode=0o600)
        part.write_text(text)
        with suppress(FileExistsError):
            path.hardlink_to(part)
        part.unlink()
    return path.read_text()


def save_address(folder: Path, run_id: str, address: str) -> str:
    """Return the address without its password; save the full address if it has one."""
    shown = redact_url(address)
    if shown != address:
        folder.mkdir(parents=True, exist_ok=True)
        write_in_home(folder / f"{run_id}.address", address, run_id=run_id)
    return shown


def saved_address(folder: Path, run_id: str, shown: str) -> str:
    """Return the full address that `save_address` saved under this shown one.

    Raises:
        RunNotFound: the address had a password, and the saved file is gone.
    """
    if "***@" not in shown:
        return shown
    try:
        return (folder / f"{run_id}.address").read_text()
    except FileNotFoundError as error:
        raise RunNotFound(f"the password in {shown} is not saved on this machine") from error
