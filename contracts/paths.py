"""Paths as people write them."""

from pathlib import Path


def existing_path(given: str) -> Path | None:
    """The absolute path of what stands there; None where nothing is, or could be."""
    try:
        whole = Path(given).expanduser().resolve()
        return whole if whole.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long; of no user that there is; with a NUL
        return None
