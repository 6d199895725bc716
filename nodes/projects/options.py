"""What a person may say of how a project installs and tests itself, instead of its files."""

from nodes.commands import line_argv

OPTIONS = {
    "install": "the command that installs the project; empty: install nothing",
    "test": "the command that tests the project; empty: there are no tests",
}
"""What `--set` may give to every blueprint that installs and tests."""


def option_argv(line: str) -> tuple[str, ...] | None:
    """The argv for one of them; None where it is empty.

    Raises:
        OptionInvalid: its quotes are not closed.
    """
    return line_argv(line) if line.strip() else None
