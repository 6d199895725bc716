"""What one attempt at a step or a fix is called, in logs, trajectories and the Prefect UI."""

_ATTEMPT = " (attempt "


def attempt_name(name: str, number: int) -> str:
    """As in `tests/run (attempt 2)`."""
    return f"{name}{_ATTEMPT}{number})"


def without_attempt(name: str) -> str:
    """The step or the fix, whichever attempt it was."""
    return name.partition(_ATTEMPT)[0]


def is_attempt(name: str) -> bool:
    """Whether attempts are called so, and nodes therefore may not be."""
    head, mark, number = name.rpartition(_ATTEMPT)
    return bool(head and mark) and number.removesuffix(")").isdigit()
