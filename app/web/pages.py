"""How a page is made: one template, escaped, in which a missing value is an error."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from flows.audit.approval_text import argument_text
from memory.notes.content import effective_status
from nodes.text import escape_invisible, strip_control_characters

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
        "visible": escape_invisible,
        "state": lambda entry: effective_status(entry, datetime.now(UTC)),
    }
    return made


def render_page(
    request: Request, name: str, values: Mapping[str, object], *, status: int = 200
) -> HTMLResponse:
    """The page `name`; only its part `_name` when htmx asked for a part.

    Half of a letter, such as models and file names may hold, is shown as `?`.
    """
    part = "hx-request" in request.headers and "hx-boosted" not in request.headers
    chosen = f"_{name}" if part and (_HERE / "templates" / f"_{name}.html").exists() else name
    html = _templates().get_template(f"{chosen}.html").render(path=request.url.path, **values)
    return HTMLResponse(html.encode("utf-8", "replace"), status_code=status)


def redirect(request: Request, path: str) -> Response:
    """Go on to `path` after a change, for browsers and for htmx alike."""
    if "hx-request" in request.headers:
        return Response(headers={"HX-Redirect": path})
    return RedirectResponse(path, status_code=303)


def ago(moment: datetime | str | None, now: datetime | None = None) -> str:
    """How long ago, in words; a text is an ISO moment."""
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
    """A share from 0 to 1 as a whole percentage."""
    return f"{share:.0%}"


def seconds(ms: int) -> str:
    """Milliseconds as seconds for a person."""
    return f"{ms / 1000:.1f} s"
