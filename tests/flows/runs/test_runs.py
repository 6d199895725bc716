import errno
import fcntl
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.errors import RunDamaged, RunNotFound
from contracts.run import RunReport
from flows.runs.request import repo_name
from flows.runs.run_record import queue_lock, read_record, request_for, run_lock, write_record
from flows.runs.runs import (
    find_run,
    list_runs,
    read_diff,
    read_entry,
    read_report,
    save_report,
    search_runs,
)
from nodes.commands import command
from tests.support.requested import requested

REQUEST = requested(
    blueprint("look", "Look", [deterministic("look", "look", command("true"))]),
    "/somewhere",
    model="scripted/x",
)

WITH_PASSWORD = "https://bot:ghp_SECRET@example.org/team/app"


def a_run(runs: Path, run_id: str) -> None:
    """A run that has ended."""
    own = write_record(runs, run_id, REQUEST, None)
    save_report(own, RunReport(run_id=run_id, blueprint="look", status="success"), "+line\n")


def test_a_run_that_has_begun_is_running(tmp_path: Path) -> None:
    write_record(tmp_path, "abcd1234", REQUEST, None)
    assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["running"]


def test_a_run_keeps_which_protected_files_it_may_change(tmp_path: Path) -> None:
    allowed = REQUEST.changed(allow_change=(".github/workflows/*",))
    asked = read_record(write_record(tmp_path, "abcd1234", allowed, None))
    assert asked is not None
    assert request_for(asked, REQUEST.definition).allow_change == (".github/workflows/*",)


def test_a_run_of_an_older_version_may_change_no_protected_file(tmp_path: Path) -> None:
    own = write_record(tmp_path, "abcd1234", REQUEST.changed(allow_change=("**",)), None)
    noted = json.loads((own / "run.json").read_text())
    del noted["allow_change"]
    (own / "run.json").write_text(json.dumps(noted))
    asked = read_record(own)
    assert asked is not None
    assert request_for(asked, REQUEST.definition).allow_change == ()


def test_a_record_of_the_version_before_is_read(tmp_path: Path) -> None:
    own = write_record(tmp_path, "abcd1234", REQUEST, None)
    noted = json.loads((own / "run.json").read_text())
    for new in ("version", "name", "secrets", "allow_change", "wait_approvals_s"):
        del noted[new]
    before = {"blueprint": "look", "blueprint_ref": "ops.py:look", "ref": None, "user": None}
    (own / "run.json").write_text(json.dumps({**noted, **before}))
    record = read_record(own)
    assert record is not None
    assert (record.name, record.blueprint, record.ref, record.user) == (
        "look",
        "ops.py:look",
        "",
        "",
    )


def test_a_run_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    own = write_record(tmp_path, "abcd1234", REQUEST, None)
    asked = json.loads((own / "run.json").read_text())
    (own / "run.json").write_text(json.dumps(asked | {"process": asked["process"] + "0"}))
    assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["lost"]


def of_another_boot(own: Path) -> None:
    asked = json.loads((own / "run.json").read_text())
    (own / "run.json").write_text(json.dumps(asked | {"process": f"another/4:{asked['process']}"}))


def test_a_run_that_a_reboot_ended_is_lost(tmp_path: Path) -> None:
    of_another_boot(write_record(tmp_path, "abcd1234", REQUEST, None))
    assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["lost"]


@pytest.mark.parametrize("keep", [run_lock, lambda folder, run: queue_lock(folder / run)])
def test_a_run_that_a_process_of_elsewhere_does_or_waits_for_is_not_lost(
    tmp_path: Path, keep: Callable[[Path, str], AbstractContextManager[None]]
) -> None:
    of_another_boot(write_record(tmp_path, "abcd1234", REQUEST, None))
    with keep(tmp_path, "abcd1234"):
        assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["running"]


@pytest.fixture
def on_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFSv4 shares a lock only of what is open to be read, and holds one of what is written."""

    def lock(file: IO[str], how: int) -> None:
        mode = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == (os.O_WRONLY if how & fcntl.LOCK_SH else os.O_RDONLY):
            raise OSError(errno.EBADF, "Bad file descriptor")
        fcntl.flock(file, how)

    monkeypatch.setattr("flows.runs.run_record.flock", lock)


@pytest.mark.usefixtures("on_nfs")
def test_runs_of_before_a_reboot_are_told_apart_on_nfs_too(tmp_path: Path) -> None:
    for run_id in ("abcd1234", "beef1234"):
        own = write_record(tmp_path, run_id, REQUEST, None)
        with run_lock(tmp_path, run_id):
            of_another_boot(own)
    with queue_lock(tmp_path / "beef1234"):
        states = {entry.run_id: entry.state for entry in list_runs(tmp_path, limit=5)}
    assert states == {"abcd1234": "lost", "beef1234": "running"}


@pytest.mark.parametrize("text", ["", "{", '{"run_id": 4}'])
def test_a_damaged_run_hides_no_other_and_is_told_by_its_id(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    a_run(tmp_path, "abcd1234")
    a_run(tmp_path, "beef1234")
    (tmp_path / "abcd1234" / "run.json").write_text(text)
    assert [entry.run_id for entry in list_runs(tmp_path, limit=5)] == ["beef1234"]
    assert "run abcd1234 is damaged" in caplog.text
    with pytest.raises(RunDamaged, match="abcd1234"):
        read_entry(tmp_path, "abcd")


def test_a_damaged_report_is_as_none(tmp_path: Path) -> None:
    a_run(tmp_path, "abcd1234")
    (tmp_path / "abcd1234" / "report.json").write_text("{")
    assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["running"]
    with pytest.raises(RunNotFound, match="has no report"):
        read_report(tmp_path, "abcd")


def test_a_run_that_has_reported_has_its_status(tmp_path: Path) -> None:
    a_run(tmp_path, "abcd1234")
    assert [entry.state for entry in list_runs(tmp_path, limit=5)] == ["success"]


def test_only_so_many_runs_are_listed(tmp_path: Path) -> None:
    for number in range(4):
        a_run(tmp_path, f"abcd000{number}")
    assert len(list_runs(tmp_path, limit=3)) == 3


def test_the_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    a_run(tmp_path, "abcd1234")
    assert read_report(tmp_path, "ab").run_id == "abcd1234"
    assert read_diff(tmp_path, "ab") == "+line\n"


@pytest.mark.parametrize("run", ["", "zz", "../abcd1234", "*"])
def test_what_names_no_run_is_refused(tmp_path: Path, run: str) -> None:
    with pytest.raises(RunNotFound):
        find_run(tmp_path, run)


def test_an_ambiguous_beginning_names_the_runs(tmp_path: Path) -> None:
    a_run(tmp_path, "abcd1234")
    a_run(tmp_path, "abff1234")
    with pytest.raises(RunNotFound, match="abcd1234, abff1234"):
        find_run(tmp_path, "ab")


def test_a_run_without_a_report_says_why(tmp_path: Path) -> None:
    write_record(tmp_path, "abcd1234", REQUEST, None)
    with pytest.raises(RunNotFound, match="it is running"):
        read_report(tmp_path, "abcd1234")


def test_the_password_of_an_address_is_shown_to_nobody(tmp_path: Path) -> None:
    write_record(tmp_path, "abcd1234", REQUEST.changed(repo=WITH_PASSWORD), None)
    (entry,) = search_runs(tmp_path, about="TEAM/app")
    assert entry.repo == "https://***@example.org/team/app"
    assert list(search_runs(tmp_path, about="ghp_SECRET")) == []


def test_a_name_made_of_an_address_holds_no_password() -> None:
    assert "SECRET" not in repo_name(WITH_PASSWORD.removesuffix("/team/app"))
