"""The prompts of this room: templates in `policy/prompts/`, filled in for a model."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined


def render_prompt(template: str, **values: object) -> str:
    """The prompt with these values, none of which is taken for a template itself."""
    text = files("policy").joinpath("prompts", template).read_text()
    made = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True)  # noqa: S701 - for a model
    return made.from_string(text).render(**values)
