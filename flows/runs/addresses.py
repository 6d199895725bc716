"""Addresses of repositories that hold a password: told to nobody, kept for this user only."""

from pathlib import Path

from contracts.errors import RunNotFound
from sandbox.redaction import redact_url


def without_password(address: str) -> str:
    """The address as anybody may see it."""
    return redact_url(address)


def save_address(folder: Path, run_id: str, address: str) -> str:
    """The address as anybody may see it; if that hides a password, the whole one is kept."""
    shown = redact_url(address)
    if shown != address:
        folder.mkdir(parents=True, exist_ok=True)
        file = _file(folder, run_id)
        file.touch(mode=0o600)
        file.write_text(address)
    return shown


def saved_address(folder: Path, run_id: str, shown: str) -> str:
    """The address that was shown as this.

    Raises:
        RunNotFound: it had a password, and what was kept of it is gone.
    """
    if "***@" not in shown:
        return shown
    try:
        return _file(folder, run_id).read_text()
    except FileNotFoundError as error:
        raise RunNotFound(f"the address that {shown} stands for is kept nowhere here") from error


def _file(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.address"
