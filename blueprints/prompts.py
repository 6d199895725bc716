"""Prompts from template files."""

from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.run import RunContext
from nodes.text import code_block
from nodes.types import MakePrompt


def prompt_template(path: Path) -> MakePrompt:
    """Return a prompt that renders a Jinja template with the context as `ctx`.

    Templates in the same folder can be included. The filter `fenced` puts untrusted text into a
    code block. A missing name or result raises when the prompt is rendered.
    """
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        undefined=StrictUndefined,
        autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fenced"] = partial(code_block, language="text")

    def prompt(ctx: RunContext) -> str:
        return environment.get_template(path.name).render(ctx=ctx).strip() + "\n"

    return prompt
