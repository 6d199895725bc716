"""Repository addresses that contain a password: shown without it, saved for this user only."""

from pathlib import Path

from contracts.errors import RunNotFound
from sandbox.git import redact_url


def without_password(address: str) -> str:
    """Return the address without its password."""
    return redact_url(address)


def save_address(folder: Path, run_id: str, address: str) -> str:
    """Return the address without its password; save the full address if it has one."""
    shown = redact_url(address)
    if shown != address:
        folder.mkdir(parents=True, exist_ok=True)
        file = _file(folder, run_id)
        file.touch(mode=0o600)
        file.write_text(address)
    return shown


def saved_address(folder: Path, run_id: str, shown: str) -> str:
    """Return the full address that `save_address` saved under this shown one.

    Raises:
        RunNotFound: the address had a password, and the saved file is gone.
    """
    if "***@" not in shown:
        return shown
    try:
        return _file(folder, run_id).read_text()
    except FileNotFoundError as error:
        raise RunNotFound(f"the address that {shown} stands for is kept nowhere here") from error


def _file(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.address"
