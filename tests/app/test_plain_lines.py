"""Without a terminal, a run is never silent for long."""

from app.terminal.live import QUIET_S, PlainLines
from contracts.run import NodeResult


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_after_half_a_minute_without_a_line_one_names_what_is_running() -> None:
    clock, shown = Clock(), list[str]()
    lines = PlainLines(shown.append, clock)
    lines.start("install")
    clock.now = QUIET_S - 1
    lines.remind()
    assert shown == ["install: started"]
    clock.now = QUIET_S + 1
    lines.remind()
    lines.remind()
    assert shown[1:] == ["install: still running after 31 s"]


def test_a_line_of_output_is_a_sign_of_life() -> None:
    clock, shown = Clock(), list[str]()
    lines = PlainLines(shown.append, clock)
    lines.start("install")
    clock.now = QUIET_S - 1
    lines.line("install", "Collecting attrs")
    clock.now = QUIET_S + 1
    lines.remind()
    assert shown[-1] == "  Collecting attrs"


def test_before_and_between_nodes_the_run_is_getting_ready() -> None:
    clock, shown = Clock(), list[str]()
    lines = PlainLines(shown.append, clock)
    lines.start("install")
    lines.complete("install", NodeResult.success())
    clock.now = 100.0
    lines.remind()
    assert shown[-1] == "getting ready: still running after 100 s"
