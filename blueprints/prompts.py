"""Prompts from template files. What a sandbox said goes in as data, behind a fence."""

from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from contracts.run import RunContext
from nodes.text import code_block
from nodes.types import MakePrompt


def prompt_template(path: Path) -> MakePrompt:
    """A prompt rendered from a Jinja template that sees the context as `ctx`.

    Templates beside it can be included. `{{ text | fenced }}` keeps text apart from the
    prompt's own words. A name or a result that is not there raises when the prompt is made.
    """
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        undefined=StrictUndefined,
        autoescape=select_autoescape(),  # for HTML names only: a prompt is plain text
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fenced"] = partial(code_block, language="text")

    def prompt(ctx: RunContext) -> str:
        return environment.get_template(path.name).render(ctx=ctx).strip() + "\n"

    return prompt
