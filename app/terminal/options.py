"""Options that many commands have."""

from typing import Annotated

import typer

from flows.runs.fields import DESCRIPTIONS

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

AllowChange = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help=DESCRIPTIONS["allow_change"])
]

MAX_ROWS = 1_000_000
"""More rows nobody lists: no database and no machine counts without an end."""
