"""When is a shop open?"""

from typing import NamedTuple


class Span(NamedTuple):
    """From `start` up to, not including, `end`; full hours, 0 to 24."""

    start: int
    end: int


def parse(text: str) -> list[Span]:
    """Spans from text such as "9-17, 18-20"."""
    spans = []
    for part in text.split(","):
        start, end = part.strip().split("-")
        spans.append(Span(int(start), int(end)))
    return spans


def is_open(spans: list[Span], hour: int) -> bool:
    """True when the shop is open during the hour that begins at `hour`."""
    return any(span.start <= hour <= span.end for span in spans)


def hours_per_day(spans: list[Span]) -> int:
    """How many hours a day the shop is open."""
    return sum(span.end - span.start for span in spans)
