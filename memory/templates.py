"""Prompt templates of this room, `memory/*.md.j2`."""

from pathlib import Path


def render_template(template: str, **values: object) -> str:
    """Return the template with these values; template code inside a value is not executed."""
    # Imported here: few runs ask a model, and every run imports this module.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - a prompt is plain text
    )
    return environment.get_template(template).render(**values)
