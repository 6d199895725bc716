"""Forked runs behave like processes that were started separately."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import sleep
from typing import NamedTuple

import pytest

from flows.host import worker_forks
from flows.host.run_process import ENGINE, FORK_SERVER
from flows.host.worker_forks import forking
from sandbox.process_label import process_label

RUN_PROCESS = """
from flows.host import run_process
run_process.ENGINE = "tests.support.forked_run"
run_process.main()
"""


class Server(NamedTuple):
    worker: ExitStack
    name: str


@pytest.fixture
def server(own_home: Path) -> Iterator[Server]:
    with ExitStack() as worker:
        process = worker.enter_context(forking("tests.support.forked_run", {}))
        yield Server(worker, os.environ[FORK_SERVER])
    assert process.wait() == 0, "it ends with its worker and its runs"


class Asked:
    """A run that was asked for, and what it told of itself."""

    def __init__(self, server: Server, folder: Path, do: str, **env: str) -> None:
        folder.mkdir()
        self.tells = folder / "tells"
        given = {FORK_SERVER: server.name, "TELL": str(self.tells), "DO": do, **env}
        argv = (sys.executable, "-P", "-c", RUN_PROCESS)
        self.process = subprocess.Popen(argv, cwd=folder, env={**os.environ, **given})

    def told(self) -> dict[str, object]:
        while not self.tells.exists():
            assert self.process.poll() is None
            sleep(0.02)
        return dict(json.loads(self.tells.read_text()))

    def end(self) -> int:
        self.tells.unlink()
        return self.process.wait()


def test_each_fork_has_its_own_environment_folder_and_random_numbers(
    server: Server, tmp_path: Path
) -> None:
    one = Asked(server, tmp_path / "one", "wait", MINE="secret")
    two = Asked(server, tmp_path / "two", "wait")
    first, second = one.told(), two.told()
    assert first["forked"] and second["forked"]
    assert (first["mine"], second["mine"]) == ("secret", None)
    assert first["folder"] == str(tmp_path / "one")
    assert first["drawn"] != second["drawn"]
    assert first["open"] == second["open"] == 4  # three streams, and what counts them
    assert (one.end(), two.end()) == (3, 3)


def test_a_changed_variable_that_python_reads_at_start_begins_a_new_process(
    server: Server, tmp_path: Path
) -> None:
    run = Asked(server, tmp_path / "run", "wait", PREFECT_LOGGING_LEVEL="DEBUG")
    assert not run.told()["forked"]
    assert run.end() == 3


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_process_of_a_worker_ends_the_run(
    server: Server, tmp_path: Path, sign: signal.Signals
) -> None:
    run = Asked(server, tmp_path / "run", "wait")
    process = process_label(int(str(run.told()["pid"])))
    run.process.send_signal(sign)
    assert run.process.wait() == -sign
    while process_label(int(str(run.told()["pid"]))) == process:
        sleep(0.02)


def test_a_killed_run_is_reported_as_killed(server: Server, tmp_path: Path) -> None:
    run = Asked(server, tmp_path / "run", "wait")
    os.kill(int(str(run.told()["pid"])), signal.SIGKILL)
    assert run.process.wait() == -signal.SIGKILL


def test_a_run_outlives_the_worker(server: Server, tmp_path: Path) -> None:
    run = Asked(server, tmp_path / "run", "wait")
    run.told()
    server.worker.close()
    assert run.end() == 3


def test_a_dead_fork_server_is_started_again(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_forks, "PAUSE_S", 0)
    with ExitStack() as worker:
        process = worker.enter_context(forking("tests.support.forked_run", {}))
        server = Server(worker, os.environ[FORK_SERVER])
        process.kill()
        process.wait()
        for attempt in count():
            run = Asked(server, tmp_path / str(attempt), "wait")
            forked = run.told()["forked"]
            assert run.end() == 3
            if forked:
                break


def test_the_fork_server_of_real_runs_has_one_thread(own_home: Path) -> None:
    """Else each would begin by itself, unseen; this one has no flow run to do, and ends with 1."""
    with forking(ENGINE, {}) as process:
        name = os.environ[FORK_SERVER]
        run = (sys.executable, "-P", "-m", "flows.host.run_process")
        env = {**os.environ, FORK_SERVER: name}
        assert subprocess.run(run, env=env, check=False).returncode == 1
        assert process.poll() is None
    assert process.wait() == 0
    said = (own_home / "prefect" / "worker.log").read_text()
    assert "Invalid flow run id" in said
    assert "Warning" not in said
