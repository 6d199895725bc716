"""What the command reads and writes: text that is none, and streams that are closed or full."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from flows.execution.engine import run_blueprint
from nodes.commands import shell
from tests.support.app import Harness
from tests.support.flows import scripted_shop
from tests.support.requested import requested

STRICT = "PYTHONIOENCODING=utf-8:strict"
ASCII = "PYTHONIOENCODING=ascii:strict"


def typed(line: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    """A line of bash in which `harness` is ours; it ends as the last of a pipe that fails."""
    ours = f'set -o pipefail; harness() {{ {sys.executable} -m app "$@"; }}; {line}'
    argv = ("bash", "-c", ours)
    return subprocess.run(argv, cwd=cwd, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("line", "exit_code", "told"),
    [
        (rf"printf '\xff' | {STRICT} harness notes add -", 2, r"half a character: '\udcff'"),
        (rf"{STRICT} harness notes list --user $'\xff'", 2, r"'\udcff' is not valid UTF-8"),
        (f"{ASCII} harness runs list", 0, ""),
        ("harness notes add - <&-", 2, "a note cannot be empty"),
        ("harness runs show nope --json | true", 2, "no run 'nope'"),
        ("harness runs show nope --json >/dev/full", 2, "no run 'nope'"),
        ("harness runs list --json >&-", 0, ""),
        ("harness runs list >/dev/full", 3, "cannot write to stdout: No space left"),
    ],
)
def test_closed_streams_and_invalid_text_cause_no_traceback(
    own_home: Path, tmp_path: Path, line: str, exit_code: int, told: str
) -> None:
    done = typed(line, tmp_path)
    said = done.stderr.decode()
    assert (done.returncode, "Traceback" in said, "a bug" in said) == (exit_code, False, False)
    assert told in said


def test_a_patch_of_any_encoding_can_be_applied(
    own_home: Path, repository: Path, tmp_path: Path
) -> None:
    change = shell(r"printf 'caf\351\r\n' > answer.txt")
    latin = blueprint("latin", "In another encoding", [deterministic("do", "do it", change)])
    request = requested(latin, repository)
    run_blueprint(request, scripted_shop(), run_id="abcd1234")
    done = typed("harness runs diff abcd | git -C repository apply", tmp_path)
    assert done.returncode == 0
    assert (repository / "answer.txt").read_bytes() == b"caf\xe9\r\n"


def test_an_export_to_stdout_is_no_document(asked: Harness) -> None:
    done = asked("events", "export", "-", "--json")
    assert (done.returncode, '"exit_code": 2' in done.stdout) == (2, True)


def test_control_characters_in_a_reply_do_not_reach_the_terminal(
    asked: Harness, own_home: Path
) -> None:
    own = own_home / "runs" / "abcd1234"
    own.mkdir(parents=True)
    (own / "run.json").write_text("{}")
    said = {"kind": "reply", "node": "fix", "message": {"content": "so \x1b]0;title\x07be it"}}
    (own / "trajectory.jsonl").write_text(json.dumps(said))
    assert "reply · so be it" in asked("runs", "show", "abcd", "--trajectory").stdout
