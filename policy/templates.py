"""Prompts for models, from the templates in `policy/prompts/`."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined


def render_prompt(template: str, **values: object) -> str:
    """Return the template with these values, which are never read as templates themselves."""
    text = files("policy").joinpath("prompts", template).read_text()
    environment = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True)  # noqa: S701 - a prompt, not HTML
    return environment.from_string(text).render(**values)
