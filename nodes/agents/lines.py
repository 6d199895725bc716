"""Short live lines about what an agent says and does."""

from nodes.text import strip_control_characters

_LONGEST = 120


def one_line(text: str, limit: int = _LONGEST) -> str:
    """The first line that says something, inert, at most `limit` characters."""
    lines = (
        " ".join(strip_control_characters(line).split()) for line in text[:10_000].splitlines()
    )
    first = next((line for line in lines if line), "")
    return first if len(first) <= limit else first[: limit - 1] + "…"


def tool_line(name: str, subject: str, note: str, seconds: float) -> str:
    """One call, such as `bash pytest -q · exit 1 · 2.3 s`."""
    return f"{one_line(f'{name} {subject}')} · {note} · {seconds:.1f} s"
