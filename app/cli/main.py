"""The `harness` command: its parts put together, and the door that errors leave by."""

import gc
import sys
from contextlib import nullcontext
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from app.cli import (
    agents,
    blueprints,
    curate,
    entities,
    events,
    examples,
    local,
    memory,
    notes,
    plans,
    repl,
    run,
    runs,
    sandbox,
    ui,
)
from app.terminal.output import (
    json_missing,
    json_only_stdout,
    print_json,
    print_message,
    set_up_logging,
)
from contracts.errors import BadInput, HarnessError, Interrupted
from nodes.node_errors import describe_node_error

DEBUG = "--debug"
JSON = "--json"

MADE_BEFORE_LOOKING = 50_000
"""Objects between two searches for garbage. What a command makes first are modules, which stay:
with Python's own number a run looks through them for a tenth of a second."""

app = typer.Typer(
    name="harness",
    help="Run coding agents unattended, in Docker sandboxes, as Prefect flows.",
    epilog=f"Add {DEBUG} to any command to see tracebacks and the log of every library.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.add_typer(blueprints.app, name="blueprints")
app.add_typer(runs.app, name="runs")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(memory.app, name="memory")
app.command("plan")(plans.plan)
app.add_typer(plans.app, name="approvals")
app.command("repl")(repl.repl)
app.add_typer(events.app, name="events")
events.app.command("find")(entities.find)
runs.app.command("events")(events.run_events)
app.add_typer(notes.app, name="notes")
app.add_typer(examples.app, name="examples")
app.add_typer(agents.app, name="agents")
app.command("curate")(curate.curate)
app.command("up")(local.up)
app.command("down")(local.down)
app.command("doctor")(local.doctor)
app.command("ui")(ui.ui)
app.command("demo")(local.demo)


def main() -> None:
    """Run the command line; every error ends in one line and its exit code."""
    gc.set_threshold(MADE_BEFORE_LOOKING)
    set_up_logging(debug=DEBUG in sys.argv)
    arguments = [argument for argument in sys.argv[1:] if argument != DEBUG]
    with json_only_stdout() if JSON in arguments else nullcontext():
        _run(arguments, debug=DEBUG in sys.argv)


def _run(arguments: list[str], *, debug: bool) -> NoReturn:
    try:
        # Asked for a document, typer leaves it to us to tell what was asked wrongly.
        code = app(arguments, standalone_mode=JSON not in arguments)
        if code == Interrupted.exit_code and json_missing():
            raise Interrupted("interrupted")
        sys.exit(code)
    except HarnessError as error:
        _explain(str(error), error.exit_code, debug=debug)
    except TyperException as error:
        _explain(error.format_message(), error.exit_code, debug=debug)
    except UnicodeEncodeError as error:
        _explain(f"{error.object[:80]!r} is no text in UTF-8", BadInput.exit_code, debug=debug)
    except Exception as error:  # noqa: BLE001 - the door: nobody sees a traceback unasked
        from app.prefect_settings import prefect_settings_error  # brings in pydantic

        if said := prefect_settings_error(error):
            _explain(said, BadInput.exit_code, debug=debug)
        bug = f"{type(error).__name__}: {error} (a bug in Harness; {DEBUG} shows where)"
        _explain(describe_node_error(error) or bug, 1, debug=debug)


def _explain(message: str, exit_code: int, *, debug: bool) -> NoReturn:
    if debug:
        raise  # noqa: PLE0704 - called while the error is handled
    print_message(f"error: {message}")
    if JSON in sys.argv:
        print_json({"error": message, "exit_code": exit_code})
    sys.exit(exit_code)
