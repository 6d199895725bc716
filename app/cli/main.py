"""The `harness` command: imports the module of one command, runs it, and reports errors."""

import pkgutil
import sys
from contextlib import nullcontext
from importlib import metadata
from traceback import walk_tb
from typing import Annotated, NamedTuple, NoReturn

import typer
from typer.exceptions import TyperException

from app.cli.help import add_examples
from app.terminal.output import (
    json_missing,
    json_only_stdout,
    print_json,
    print_line,
    print_message,
    set_up_logging,
)
from contracts.errors import BadInput, HarnessError, Interrupted
from flows.config.environment import completed_words
from nodes.node_errors import describe_node_error

DEBUG = "--debug"
JSON = "--json"


class Command(NamedTuple):
    """A command or group of commands, and its line in `harness --help`."""

    target: str
    """The function or `typer.Typer`, as `module:name`."""
    help: str


COMMANDS = {
    "run": Command("app.cli.run:run", "Run a blueprint on a repository, on a new branch."),
    "runs": Command("app.cli.runs:app", "List, inspect, resume and cancel runs."),
    "blueprints": Command("app.cli.blueprints:app", "List, inspect and check blueprints."),
    "plan": Command("app.cli.plans:plans", "Make a plan from a prompt and run it; manage plans."),
    "approvals": Command("app.cli.approvals:app", "List and decide what the policy stopped."),
    "policy": Command("app.cli.policy:app", "Show which files are protected, and why."),
    "repl": Command("app.cli.plans:repl", "Type prompts; watch plans, approvals and events live."),
    "events": Command("app.cli.events:app", "Inspect, verify and export the event log."),
    "memory": Command("app.cli.memory:app", "Manage playbooks, the procedures shown to runs."),
    "notes": Command("app.cli.notes:app", "Manage notes, the statements that agents are given."),
    "examples": Command("app.cli.examples:app", "Manage examples of good inputs and outputs."),
    "agents": Command("app.cli.agents:app", "Show versions of agents, and set notes per agent."),
    "mcp": Command("app.cli.mcp:app", "List, add and test the MCP servers that agents may use."),
    "curate": Command("app.cli.curate:curate", "Propose notes and examples from finished runs."),
    "sandbox": Command("app.cli.sandbox:app", "Build the base image, list and remove containers."),
    "env": Command("app.cli.environments:app", "List and remove kept environments of projects."),
    "deploy": Command("app.cli.deployments:deploy", "Have Prefect run a blueprint, on a schedule."),
    "deployments": Command("app.cli.deployments:app", "List and remove deployments."),
    "up": Command("app.cli.local:up", "Start the local processes that runs from Prefect need."),
    "down": Command("app.cli.local:down", "Stop the processes that `harness up` started."),
    "doctor": Command("app.cli.local:doctor", "Check everything that a run needs."),
    "ui": Command("app.cli.local:ui", "Serve the web pages until interrupted."),
    "demo": Command("app.cli.local:demo", "Run fix-tests on a repository with a failing test."),
}  # fmt: skip


def _print_version(asked: bool) -> None:
    if asked:
        print_line(f"harness {metadata.version('harness')}")
        raise typer.Exit


def command_line(*names: str) -> typer.Typer:
    """Return the command line with the named commands; the others have only their help line.

    Importing all commands takes about 1.5 s (`python -X importtime`), one of them 0.2 to 0.8 s.
    """
    line = typer.Typer(
        name="harness",
        help="Run coding agents unattended, in Docker sandboxes, as Prefect flows.",
        epilog=f"\b\nExamples:\n  harness demo\n  harness run --help\n\n"
        f"Add {DEBUG} to any command to see tracebacks and the log of every library.",
        no_args_is_help=True,
        rich_markup_mode=None,  # rich would take "[memory]" in a help text for markup
        pretty_exceptions_enable=False,
    )
    line.callback()(_options)
    for name, command in COMMANDS.items():
        found = pkgutil.resolve_name(command.target) if name in names else _not_imported
        if isinstance(found, typer.Typer):
            line.add_typer(found, name=name, help=command.help)
        else:
            line.command(name, help=command.help)(found)
    add_examples(line)
    return line


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run coding agents unattended, in Docker sandboxes, as Prefect flows."""


def main() -> None:
    """Run the command line; every error becomes one line and an exit code."""
    debug = DEBUG in sys.argv
    set_up_logging(debug=debug)
    arguments = [argument for argument in sys.argv[1:] if argument != DEBUG]
    with json_only_stdout() if JSON in arguments else nullcontext():
        _run(arguments, debug=debug)


def _run(arguments: list[str], *, debug: bool) -> NoReturn:
    try:
        # With --json a usage error must become a document, so typer must not print it and exit.
        names = completed_words()[:1] or arguments[:1]
        code = command_line(*names)(
            arguments, prog_name="harness", standalone_mode=JSON not in arguments
        )
        if code == Interrupted.exit_code and json_missing():
            raise Interrupted("interrupted")
        sys.exit(code)
    except HarnessError as error:
        _report(str(error), error.exit_code, debug=debug)
    except TyperException as error:
        _report(error.format_message(), error.exit_code, debug=debug)
    except UnicodeEncodeError as error:
        _report(f"{error.object[:80]!r} is not valid UTF-8", BadInput.exit_code, debug=debug)
    except Exception as error:  # noqa: BLE001 - the user sees a traceback only with --debug
        if message := _prefect_settings_error(error):
            _report(message, BadInput.exit_code, debug=debug)
        bug = f"{type(error).__name__}: {error} (a bug in Harness; {DEBUG} shows the traceback)"
        _report(describe_node_error(error) or bug, 1, debug=debug)


def _report(message: str, exit_code: int, *, debug: bool) -> NoReturn:
    if debug:
        raise  # noqa: PLE0704 - called while the error is handled
    print_message(f"error: {message}")
    if JSON in sys.argv:
        print_json({"error": message, "exit_code": exit_code})
    sys.exit(exit_code)


def _prefect_settings_error(error: Exception) -> str | None:
    """Describe an invalid Prefect setting, which fails the import of Prefect; else None."""
    from pydantic import ValidationError

    modules = (str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__))
    if not isinstance(error, ValidationError) or not any(
        module.startswith("prefect.settings") for module in modules
    ):
        return None
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    name = ".".join(map(str, first["loc"])) or "PREFECT_API_URL"
    return (
        f"Prefect cannot use its setting {name!r}: {first['msg']}. It comes from a PREFECT_ "
        "variable or from Prefect's profile"
    )


def _not_imported() -> None:
    """Stand for a command that this process does not run."""
