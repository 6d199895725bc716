"""What a person chose in a list: each at the version that the list showed."""

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import Form
from pydantic import StringConstraints

from memory.errors import NoteNotFound, PlaybookNotFound, StaleUpdate

SelectedVersions = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^[^@]+@\d{1,9}$")], ...], Form()
]
"""Ids, each with the version that was shown, such as `4f0c…@3`."""


def change_selected(
    chosen: Sequence[str], change: Callable[[str, int], object], name: Callable[[str], str]
) -> None:
    """Change each of them that is still as it was shown.

    Raises:
        StaleUpdate: gives the `name` of those that are not; they stay as they are.
    """
    overtaken: list[str] = []
    for one in chosen:
        ref, _, version = one.rpartition("@")
        try:
            change(ref, int(version))
        except StaleUpdate:
            overtaken.append(repr(name(ref)[:60]))
        except (NoteNotFound, PlaybookNotFound):
            overtaken.append("one that is gone")
    if overtaken:
        raise StaleUpdate(
            f"changed since you saw it, and left as it is: {', '.join(overtaken)}. "
            "Look at what is there, then choose again"
        )
