"""Runs side by side, and a disk that fills up under one."""

import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.errors import HomeUnavailable, Unavailable
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Sandbox
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.recall.library import configured_library
from flows.runs.runs import find_resumable
from nodes.commands import shell
from tests.support.flows import Ask, scripted_shop
from tests.support.repositories import fingerprint, git


def test_runs_on_one_repository_at_once_do_not_disturb_each_other(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    def run(number: int) -> RunReport:
        line = f"sleep 0.2; echo {number} > answer.txt; git commit -qam {number}; sleep 0.2"
        made = blueprint("number", "A number", [deterministic("do", "do", shell(line))])
        return run_blueprint(ask(made), shop, run_id=f"abcd000{number}")

    before = fingerprint(repository)
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(run, range(4)))
    assert [report.status for report in reports] == ["success"] * 4
    for number, report in enumerate(reports):
        assert git(repository, "show", f"{report.branch}:answer.txt") == str(number)
        assert git(repository, "rev-list", "--count", f"main..{report.branch}") == "1"
    assert fingerprint(repository) == before


def test_a_database_that_a_newer_harness_has_moved_on_is_told_in_one_line(
    shop: RunDependencies, ask: Ask, own_home: Path
) -> None:
    with configured_library() as opened:
        opened.stats()
    with sqlite3.connect(own_home / "harness.db") as newer:
        newer.execute("UPDATE alembic_version SET version_num = '9999'")
    request = ask(blueprint("nothing", "Nothing", [deterministic("do", "do", shell("true"))]))
    with pytest.raises(Unavailable, match=r"'9999'.*Use the newer Harness") as told:
        run_blueprint(request, shop, run_id="abcd1234")
    assert "\n" not in str(told.value)


@pytest.fixture
def small_home(own_home: Path) -> Iterator[Path]:
    """A home with room for a few megabytes."""
    own_home.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", "size=8m", "harness-small", str(own_home))
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield own_home
    subprocess.run(("umount", "--lazy", str(own_home)), check=True)


FULL = """
from blueprints.dsl import blueprint, deterministic
from nodes.commands import shell
full = blueprint("full", "As it is found again", [
    deterministic(name, name, shell("true")) for name in ("one", "fill")])
"""


def test_a_run_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    small_home: Path, ask: Ask, repository: Path
) -> None:
    filler = small_home / "filler"
    done: list[str] = []

    def fill(_: RunContext, sandbox: Sandbox) -> NodeResult:
        done.append("fill")
        sandbox.write_file("lines.txt", b"two\n")
        if not filler.exists():
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
        return NodeResult.success("x" * 20_000)

    (repository.parent / "full.py").write_text(FULL)
    nodes = [deterministic("one", "one", shell("echo one")), deterministic("fill", "fill it", fill)]
    full = f"{repository.parent / 'full.py'}:full"
    request = ask(blueprint("full", "A full disk", nodes)).changed(blueprint=full)
    shop = scripted_shop()
    with pytest.raises(HomeUnavailable, match=r"No space left on device\. Free some space"):
        run_blueprint(request, shop, run_id="abcd1234")
    filler.write_bytes(b"")
    assert find_resumable(shop.runs, "abcd1234").request.repo == str(repository)
    report = run_blueprint(request, shop, run_id="abcd1234")
    assert (report.status, done) == ("success", ["fill", "fill"])
    assert git(repository, "show", f"{report.branch}:lines.txt") == "two"
