"""Options that many commands have."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

MOST = 1_000_000
"""More rows nobody lists: no database and no machine counts without an end."""
