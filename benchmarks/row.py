"""One figure that `make bench` prints."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """Ours against a baseline measured in the same run; `ratio` is ours / baseline.

    A `ratio` that is not a number says that nothing could be measured; `note` then says why.
    `loaded` rows were measured beside busy processes, `failed` ones could not be, by an error.
    `target` is the bound that was promised, in words, such as "at most 1.3".
    """

    name: str
    ours: float
    baseline: float
    ratio: float
    target: str
    unit: str = "s"
    note: str = ""
    loaded: bool = False
    failed: bool = False
