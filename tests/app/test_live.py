"""What is shown while a run goes on."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from app.terminal.live import live_view, node_line
from app.terminal.tree import RunTree
from contracts.run import NodeResult


def rendered(tree: RunTree) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(tree.render())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_tree_shows_what_is_done_and_what_is_running() -> None:
    tree = RunTree("fix-tests abcd1234")
    tree.start("tools")
    tree.complete("tools", NodeResult.success())
    tree.start("verify")
    tree.line("verify", "1 failed")
    shown = rendered(tree)
    assert "ok tools" in shown
    assert "verify" in shown
    assert "1 failed" in shown


def test_an_inner_step_is_indented_below_its_node() -> None:
    tree = RunTree("fix-tests abcd1234")
    tree.start("verify")
    tree.start("verify/test (attempt 1)")
    tree.complete("verify/test (attempt 1)", NodeResult.failure("exit 1"))
    assert "  failed   verify/test (attempt 1)" in rendered(tree)


def test_only_the_newest_lines_are_shown() -> None:
    tree = RunTree("t")
    tree.start("node")
    for number in range(30):
        tree.line("node", f"line {number}")
    shown = rendered(tree)
    assert "line 29" in shown
    assert "line 3\n" not in shown


def test_markup_in_output_is_shown_as_it_is() -> None:
    tree = RunTree("t")
    tree.start("node")
    tree.line("node", "[red]not red[/red]")
    assert "[red]not red[/red]" in rendered(tree)


def test_without_a_terminal_each_event_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with live_view("title") as watch:
        watch.on_node_start("lint")
        watch.on_line("lint", "one problem")
        watch.on_node_complete("lint", NodeResult.failure("exit 1"))
    assert capsys.readouterr().err == (
        "lint: started\n  one problem\nlint: failed in 0.0 s: exit 1\n"
    )


def test_the_remark_on_a_success_is_in_its_line() -> None:
    hang = replace(NodeResult.success("much"), remark="the tests did not end within 600 s")
    line = node_line("reproduce", hang)
    assert line == "reproduce: ok in 0.0 s: the tests did not end within 600 s"


def test_a_skipped_node_took_no_time() -> None:
    assert node_line("lint", NodeResult.skipped()) == "lint: skipped"
