"""Settings of Prefect's own that cannot be used: it reads them while it is imported."""

from traceback import walk_tb

from pydantic import ValidationError


def prefect_settings_error(error: Exception) -> str | None:
    """One line on what Prefect makes of its settings; None when it is about something else."""
    rooms = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    if not isinstance(error, ValidationError) or not any(
        room.startswith("prefect.settings") for room in rooms
    ):
        return None
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or "PREFECT_API_URL"
    return (
        f"Prefect cannot use its setting {place!r}: {first['msg']}. It comes from a PREFECT_ "
        "variable or from Prefect's profile"
    )
