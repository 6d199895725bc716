"""Spans that say how something ended, and never in which words."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


@contextmanager
def spanning(
    tracer: "Tracer", name: str, attributes: Mapping[str, str] | None = None
) -> Iterator["Span"]:
    """A span of what is done in the block; of what that raises it tells the class alone."""
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:  # Ctrl-C too: it is told, and goes on its way
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            raise
