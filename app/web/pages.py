"""Renders the pages: escaped Jinja templates, in which a missing value is an error."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from flows.audit.approval_text import argument_text
from flows.audit.question_text import question
from memory.notes.content import effective_status
from nodes.text import escape_invisible, strip_control_characters, subject_line

_HERE = Path(__file__).parent


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "percent": percent,
        "seconds": seconds,
        "inert": strip_control_characters,
        "in_words": argument_text,
        "question": question,
        "subject": subject_line,
        "visible": escape_invisible,
        "state": lambda entry: effective_status(entry, datetime.now(UTC)),
    }
    return made


def render_page(
    request: Request,
    name: str,
    values: Mapping[str, object],
    *,
    status: int = 200,
    path: str | None = None,
) -> HTMLResponse:
    """Return the page `name`, or only its part `_name` if htmx requests a part.

    Lone surrogates, which model replies and file names may contain, become `?`.
    """
    is_part = "hx-request" in request.headers and "hx-boosted" not in request.headers
    part = _HERE / "templates" / f"_{name}.html"
    template = _templates().get_template(part.name if is_part and part.exists() else f"{name}.html")
    html = template.render(path=path or request.url.path, **values)
    return HTMLResponse(html.encode("utf-8", "replace"), status_code=status)


def redirect(request: Request, path: str) -> Response:
    """Return a redirect after a change; htmx needs a header of its own."""
    if "hx-request" in request.headers:
        return Response(headers={"HX-Redirect": path})
    return RedirectResponse(path, status_code=303)


def ago(moment: datetime | str | None, now: datetime | None = None) -> str:
    """Return the time since a moment in words, such as `3 days ago`; a text is in ISO format."""
    if not moment:
        return "never"
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    passed = ((now or datetime.now(UTC)) - at).total_seconds()
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = int(passed // size)
        if count >= 1:
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def percent(share: float) -> str:
    """Return a share from 0 to 1 as a whole percentage."""
    return f"{share:.0%}"


def seconds(ms: int) -> str:
    """Return milliseconds as a text in seconds."""
    return f"{ms / 1000:.1f} s"
