"""The commands that are forked: what they import, and how a fork executes one."""

from importlib import import_module

from app.start import execute_here
from app.terminal.output import set_up_logging
from flows.host import engine_process

_NEEDED = (
    "app.cli.memory", "app.cli.plans", "app.cli.run", "app.cli.runs", "app.demo.request",
    "app.terminal.tree",
    "flows.execution.end_state", "flows.orchestration.cancel", "flows.orchestration.compile",
    "flows.orchestration.start", "flows.plans.start", "flows.services.server_outage",
)  # fmt: skip


def get_ready() -> None:
    """Import what the commands need, before forking."""
    set_up_logging(debug=False)  # Prefect reads it during its import
    engine_process.get_ready()
    for name in _NEEDED:
        import_module(name)


def main() -> None:
    """Execute the command in this fork."""
    execute_here()
