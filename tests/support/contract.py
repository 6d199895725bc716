"""Shared by the tests of contract."""

from contracts.sandbox import Command, ExecResult, OnOutput, Sandbox


def sh(
    sandbox: Sandbox,
    line: str,
    *,
    timeout_s: float | None = None,
    on_output: OnOutput | None = None,
) -> ExecResult:
    return sandbox.exec(Command(argv=("sh", "-c", line), timeout_s=timeout_s), on_output)
