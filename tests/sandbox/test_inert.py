"""What a sandbox prints has no power over a terminal, a log or a page."""

from pathlib import Path

import pytest

from contracts.run import NodeReport, RunReport
from contracts.sandbox import Command, ExecResult
from flows.runs.report import report_markdown, table_rows
from nodes.node_sandbox import NodeSandbox
from nodes.text import strip_control_characters
from sandbox.diffs import diff
from sandbox.git import error_text
from sandbox.repos import fetch_base
from sandbox.scripted import ScriptedSandbox
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import make_repo

ATTACKS = (
    "\x1b]0;a new title\x07",
    "\x1b[2J\x1b[H",
    "\x1b]52;c;cm0gLXJmIC8=\x07",  # writes the clipboard
    "\x1b]8;;https://evil.test\x1b\\click\x1b]8;;\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x9b2J",
    "safe\u202etxt.exe",
    "over\rwritten",
    "\x08\x08\x08\x7f",
)
MARKUP = "<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:b) ![c](//evil)"


def is_inert(text: str) -> bool:
    return all(char in "\n\t" or char.isprintable() for char in text)


def report_of(text: str) -> RunReport:
    node = NodeReport(
        name="verify",
        type="validate",
        status="failure",
        error=strip_control_characters(text),
        output=strip_control_characters(text),
    )
    return RunReport(
        run_id="r", blueprint="b", status="failure", nodes=(node,), error=text, notices=(text,)
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_live_line_is_inert(attack: str) -> None:
    argv, lines = ("print", "it"), list[str]()
    hostile = f"before {attack} after\n".encode("utf-8", "surrogateescape")
    with ScriptedSandbox({argv: ExecResult(exit_code=0, stdout=hostile)}) as inner:
        NodeSandbox(inner, env={}, timeout_s=None, sink=lines.append).exec(Command(argv=argv))
    assert is_inert("\n".join(lines))
    assert lines[0].startswith("before ")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_report_and_its_diff_are_inert(attack: str) -> None:
    text = report_markdown(report_of(attack), f"+++ b/f\n+{attack}\n")
    assert is_inert(text)


def test_markup_in_a_report_is_text() -> None:
    outside_blocks = report_markdown(report_of(MARKUP), "").split("```")[::2]
    assert not any(sign in part for part in outside_blocks for sign in ("<script", "<img", "[a]("))


def test_a_diff_cannot_leave_its_block() -> None:
    hostile = f"+```\n+````\n+{MARKUP}\n"
    text = report_markdown(report_of(""), hostile)
    fence = text[text.index("## Diff") :].split("\n")[2].removesuffix("diff")
    assert set(fence) == {"`"}
    assert fence not in hostile


@pytest.mark.parametrize("attack", ATTACKS)
def test_gits_last_words_are_inert(attack: str) -> None:
    assert is_inert(error_text(f"fatal: no {attack}\nbranch".encode("utf-8", "surrogateescape")))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_row_for_a_table_is_inert(attack: str) -> None:
    assert all(is_inert(cell) for row in table_rows(report_of(attack)) for cell in row.values())


def test_a_work_full_of_escapes_is_a_plain_report(tmp_path: Path) -> None:
    base = fetch_base(str(make_repo(tmp_path / "shop")), store=tmp_path / "store")
    with ScriptedSandbox() as sandbox:
        clone_into_sandbox(sandbox, base, "harness/r/x")
        sandbox.write_file("new\x1b[2J", "".join(ATTACKS).encode())
        work = collect_work(sandbox, base, "harness/r/x", message="\x1b[2J")
    assert work is not None
    assert "new" in work.diff
    assert is_inert(report_markdown(report_of(""), diff(base, work.commit)))
