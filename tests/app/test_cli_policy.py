"""`harness plan` and `harness approvals`, as a script uses them; the sandbox is a real one."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.app import Harness
from tests.support.mailbox import Mailbox, mail_server

OUT = "other@example.net"


def step(op: str, cap: str, **args: object) -> dict[str, object]:
    return {"op": op, "args": args, "tool_caps": [cap], "deps": [0] if op == "send_email" else []}


READ = step("read_file", "READ_FILE", path="q2.md")
SEND = step("send_email", "SEND_EMAIL", to="team@example.org", subject="Q2", body="step0.result")
CARELESS = step("send_email", "SEND_EMAIL", to="step0.result", subject="Q2", body="Hello")


@pytest.fixture
def mailbox(own_home: Path) -> Iterator[Mailbox]:
    own_home.mkdir(exist_ok=True)
    with mail_server() as box:
        (own_home / "harness.toml").write_text(f"[policy.mail]\nport = {box.port}\n")
        yield box


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "q2.md").write_text(OUT)
    return folder


def planner(folder: Path, *steps: dict[str, object]) -> str:
    path = folder / "plan.jsonl"
    path.write_text(json.dumps({"content": json.dumps({"steps": steps})}) + "\n")
    return f"scripted/{path}"


def test_a_dry_run_shows_the_plan_and_runs_nothing(
    started: Harness, mailbox: Mailbox, notes: Path, tmp_path: Path
) -> None:
    model = planner(tmp_path, READ, SEND)
    done = started("plan", "send it", "--repo", str(notes), "--model", model, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "1. send_email(to='team@example.org'" in done.stdout
    assert "needs SEND_EMAIL" in done.stderr
    assert mailbox.mails == []


def test_bad_input_is_one_line_and_exit_code_2(
    asked: Harness, mailbox: Mailbox, notes: Path, tmp_path: Path
) -> None:
    unknown = planner(tmp_path, step("launch", "ROCKET"), step("launch", "ROCKET"))
    for args in (
        ("plan", "send it", "--repo", str(tmp_path / "nowhere"), "--model", unknown),
        ("plan", " ", "--repo", str(notes), "--model", unknown),
        ("plan", "send it", "--repo", str(notes), "--untrusted", "--model", unknown),
        ("approvals", "approve", "nope"),
    ):
        done = asked(*args)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_declined_plan_is_reported_as_json(
    asked: Harness, mailbox: Mailbox, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, terminal = os.openpty()
    os.write(person, b"n\n")
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        model = planner(tmp_path, READ, SEND)
        done = asked("plan", "send it", "--repo", str(notes), "--model", model, "--json")
    os.close(person)
    said = {"error": "the plan was not run: you did not agree to it", "exit_code": 1}
    assert (done.returncode, json.loads(done.stdout)) == (1, said)


@pytest.mark.docker
@pytest.mark.prefect
def test_what_a_note_decides_waits_and_an_approval_sends_exactly_that(
    harness: Harness,
    asked: Harness,
    mailbox: Mailbox,
    notes: Path,
    tmp_path: Path,
) -> None:
    plan = ("plan", "send it", "--repo", str(notes), "--yes", "--grant", "SEND_EMAIL", "--json")
    try:
        sent = harness(*plan, "--model", planner(tmp_path, READ, SEND))
        assert sent.returncode == 0, sent.stderr
        assert [mail.to for mail in mailbox.mails] == [["team@example.org"]]
        waits = harness(*plan, "--model", planner(tmp_path, READ, CARELESS))
        assert waits.returncode == 4, waits.stderr
        report = json.loads(waits.stdout)
        (approval,) = report["approvals"]
        assert report["steps"][1]["rule"] == "C4"
        assert report["steps"][1]["provenance"] == ["repo:notes", "step0 read_file q2.md"]
        assert len(mailbox.mails) == 1
        approved = harness("approvals", "approve", approval[:6], "--json")
        assert approved.returncode == 0, approved.stderr
        assert json.loads(approved.stdout)["status"] == "success"
        assert [mail.to for mail in mailbox.mails] == [["team@example.org"], [OUT]]
        assert asked("approvals", "approve", approval).returncode == 2
        assert asked("events", "verify").returncode == 0
        assert asked("events", "replay").returncode == 0
    finally:
        harness("down")
