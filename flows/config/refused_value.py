"""What an error repeats of a value that was refused: nothing that may hold a secret. Pure."""

import re

from pydantic_core import ErrorDetails

_MAY_BE_SECRET = re.compile(r"(?i)secret|token|password|key")

_SHORT = 40
"""Characters of a text that are repeated; a longer one is not."""


def repeated(place: str, error: ErrorDetails) -> str:
    """` is 'many'` for one number or word that stands where one is meant; else empty."""
    value, kind = error["input"], error["type"]
    if kind in ("missing", "extra_forbidden") or _MAY_BE_SECRET.search(place):
        return ""
    if isinstance(value, int | float):
        return f" is {value!r}"
    is_word = isinstance(value, str) and len(value) <= _SHORT and "://" not in value
    # A word in the place of a table may be anything.
    return f" is {value!r}" if is_word and not kind.endswith("_type") else ""
