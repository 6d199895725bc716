"""The system prompt of the native agent, from its template file."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    autoescape=select_autoescape(),  # for HTML names only: a prompt is plain text
)


def system_prompt(
    *, work_dir: str, online: bool, tools: Sequence[str], allowed: str, system: str
) -> str:
    """What the model is told before the task; `system` comes last, as it is."""
    template = _TEMPLATES.get_template("system_prompt.md.j2")
    return template.render(
        work_dir=work_dir, online=online, tools=tools, allowed=allowed, system=system
    )
