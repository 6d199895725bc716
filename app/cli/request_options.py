"""The options of commands that take a run request: `run` and `deploy`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from blueprints.find import is_markdown
from contracts.errors import OptionInvalid
from flows.runs.request import RunRequest

_FIELDS = RunRequest.model_fields

BlueprintName = Annotated[str, typer.Argument(help=_FIELDS["blueprint"].description)]
Repo = Annotated[str, typer.Option(help=_FIELDS["repo"].description)]
Intent = Annotated[str, typer.Option(help=_FIELDS["intent"].description)]
Ref = Annotated[str, typer.Option(help=_FIELDS["ref"].description)]
AgentName = Annotated[str, typer.Option(help=_FIELDS["agent"].description)]
Model = Annotated[str, typer.Option(help=_FIELDS["model"].description)]
Push = Annotated[bool, typer.Option("--push", help=_FIELDS["push"].description)]
UntilGreen = Annotated[int, typer.Option(metavar="ROUNDS", help=_FIELDS["until_green"].description)]
SetOptions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help=_FIELDS["options"].description),
]
BudgetUsd = Annotated[float | None, typer.Option(help=_FIELDS["budget_usd"].description)]
UserId = Annotated[str, typer.Option(help=_FIELDS["user"].description)]
CompanyId = Annotated[str, typer.Option(help=_FIELDS["company"].description)]
AllowChange = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help=_FIELDS["allow_change"].description)
]
McpTools = Annotated[
    list[str] | None, typer.Option("--mcp", metavar="SERVER:TOOL", help=_FIELDS["mcp"].description)
]


def located(repo: str) -> str:
    """Return a folder as an absolute path, so that lists show its name; a URL unchanged."""
    # Without following links: the name that the user typed is the one to show.
    return os.path.abspath(repo) if os.path.isdir(repo) else repo  # noqa: PTH100, PTH112 - never raises


def located_blueprint(ref: str) -> str:
    """Return FILE:NAME or FILE.md with an absolute path; any other reference unchanged."""
    place, colon, name = (ref, "", "") if is_markdown(ref) else ref.rpartition(":")
    if not Path(place).is_file():
        return ref
    return f"{os.path.abspath(place)}{colon}{name}"  # noqa: PTH100 - as in `located`


def option_values(texts: list[str] | None) -> dict[str, str]:
    """Return NAME=VALUE texts as a dictionary.

    Raises:
        OptionInvalid: a text has no `=`.
    """
    for text in texts or []:
        if "=" not in text:
            raise OptionInvalid(f"--set needs NAME=VALUE, not {text!r}")
    return dict(text.split("=", 1) for text in texts or [])
