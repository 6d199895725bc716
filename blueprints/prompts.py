"""Prompts from templates: files of a package, and text.

Templates are Jinja's, in its sandbox: they read what they are given and run no Python. A missing
name or result raises when the prompt is rendered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import walk_tb

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    select_autoescape,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

from contracts.errors import BlueprintInvalid, NodeBroken
from contracts.run import NodeResult, RunContext
from nodes.text import code_block
from nodes.types import MakePrompt

_fenced = partial(code_block, language="text")


def prompt_template(path: Path) -> MakePrompt:
    """Return a prompt that renders a template file with the context as `ctx`.

    Templates in the same folder can be included. The filter `fenced` puts untrusted text into a
    code block.
    """
    environment = _environment()
    environment.loader = FileSystemLoader(path.parent)

    def prompt(ctx: RunContext) -> str:
        return environment.get_template(path.name).render(ctx=ctx).strip() + "\n"

    return prompt


@dataclass(frozen=True)
class TextPrompt:
    """A prompt from the texts of templates, joined by an empty line.

    They have `intent`, `options` and `results`; `{{ results.NODE }}` is the output of an earlier
    node in a code block. `file` and `lines`, the line where each text begins, are for messages.

    Raises:
        BlueprintInvalid: a text is no template.
    """

    texts: tuple[str, ...]
    file: str = field(default="prompt", compare=False)
    lines: tuple[int, ...] = field(default=(), compare=False)
    _templates: tuple[Template, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lines = self.lines or (1,) * len(self.texts)
        templates = tuple(map(self._template, self.texts, lines))
        object.__setattr__(self, "_templates", templates)

    def __call__(self, ctx: RunContext) -> str:
        """Return the prompt.

        Raises:
            NodeBroken: a template names what is not there; the message has file and line.
        """
        values = {
            "intent": ctx.intent,
            "options": dict(ctx.options),
            "results": dict(ctx.results),
        }
        try:
            parts = [template.render(values).strip() for template in self._templates]
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            frames = walk_tb(error.__traceback__)
            line = [line for frame, line in frames if frame.f_code.co_filename == self.file][-1]
            raise NodeBroken(f"{self.file}:{line}: {error}{_known(values)}") from error
        return "\n\n".join(parts) + "\n"

    def _template(self, text: str, line: int) -> Template:
        environment = _environment()
        environment.finalize = _show_output
        try:
            # Empty lines before it, so that Jinja counts lines as the file does.
            code = environment.compile("\n" * (line - 1) + text, filename=self.file)
        except TemplateSyntaxError as error:
            raise BlueprintInvalid(f"{self.file}:{error.lineno}: {error.message}") from error
        return Template.from_code(environment, code, environment.make_globals(None))


def prompt_text(*texts: str) -> TextPrompt:
    """Return a prompt from the texts of templates, as a Markdown blueprint has them."""
    return TextPrompt(texts)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=select_autoescape(),  # escapes HTML templates only; a prompt is plain text
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fenced"] = _fenced
    return environment


def _known(values: Mapping[str, object]) -> str:
    """Return the names that a template can use, for its author."""
    inner = (f"{k}.{name}" for k, v in values.items() if isinstance(v, Mapping) for name in v)
    return f"; known: {', '.join([*values, *inner])}"


def _show_output(value: object) -> object:
    return _fenced(value.output or value.error or "") if isinstance(value, NodeResult) else value
