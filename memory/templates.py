"""The prompts of this room: templates beside the code that asks, filled in for a model."""

from pathlib import Path


def render_template(template: str, **values: object) -> str:
    """The prompt with these values, none of which is taken for a template itself."""
    # Few runs ask a model, and every run pays for what is imported above.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - a prompt is plain text
    )
    return made.get_template(template).render(**values)
