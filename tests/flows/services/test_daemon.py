"""Daemons: a small server is started, reused, replaced and stopped."""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from stat import S_IMODE

import httpx
import pytest

from contracts.errors import Unavailable
from flows.services import daemon, local_http
from flows.services.daemon import Daemon, Launch, RunningDaemon
from tests.support.here import here
from tests.support.waiting import wait_until

KeptHere = Callable[..., Daemon]

SLOW_TO_BIND = """
import runpy, sys, time
_, wait_s, port = sys.argv
time.sleep(float(wait_s))
sys.argv[1:] = ["--bind", "127.0.0.1", port]
runpy.run_module("http.server", run_name="__main__")
"""
"""What is still importing when somebody else takes its port."""

STOPS_ITSELF = """
import os, signal
print("now I stop", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Daemon]:
    def launch() -> Launch:
        port = local_http.free_port()
        argv = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))
        return Launch(argv, os.environ, f"http://127.0.0.1:{port}/")

    made = Daemon(
        name="small",
        title="the small server",
        folder=tmp_path / "small",
        launch=launch,
        healthy=answers,
    )
    yield made
    made.down()


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_a_host_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(Unavailable, match=f"nothing can listen on '{host}': .*(known|assign)"):
        local_http.free_port(0, host)


def test_a_running_daemon_is_reused_and_a_dead_one_replaced(small: Daemon) -> None:
    first = small.up()
    assert small.up() == first
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not first.alive)
    assert small.status() is None
    assert small.up().pid != first.pid


def test_a_daemon_can_be_stopped_twice(small: Daemon) -> None:
    running = small.up()
    assert small.down()
    assert not running.alive
    assert not small.down()


def test_concurrent_callers_start_one_process(small: Daemon) -> None:
    found: list[RunningDaemon] = []
    threads = [threading.Thread(target=lambda: found.append(small.up())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({running.pid for running in found}) == 1


def test_only_the_user_may_read_the_state_file(small: Daemon) -> None:
    small.up()
    assert S_IMODE(small.state_file.stat().st_mode) == 0o600


def test_a_daemon_that_ends_at_once_names_its_log(small: Daemon) -> None:
    def launch() -> Launch:
        return Launch(("sh", "-c", "echo no luck; exit 3"), {}, "http://127.0.0.1:9/")

    broken = replace(small, launch=launch)
    with pytest.raises(
        Unavailable,
        match=r"server at \S+ ended while it was starting: see .*small\.log\. .* last: no luck$",
    ):
        broken.up()


def test_a_daemon_whose_port_was_taken_is_started_again(small: Daemon) -> None:
    launches = iter([Launch(("false",), {}, "http://127.0.0.1:9/"), small.launch()])
    assert replace(small, launch=lambda: next(launches)).up().alive


def test_two_homes_that_choose_the_same_port_get_a_server_each(
    small: Daemon, tmp_path: Path
) -> None:
    both_chose, shared = threading.Barrier(2), [local_http.free_port()] * 2

    def at_once(folder: str, wait_s: float) -> Daemon:
        def launch() -> Launch:
            if shared:
                port = shared.pop()
                both_chose.wait()
            else:
                port = local_http.free_port()
            argv = (sys.executable, "-c", SLOW_TO_BIND, str(wait_s), str(port))
            return Launch(argv, os.environ, f"http://127.0.0.1:{port}/")

        return replace(small, folder=tmp_path / folder, launch=launch)

    homes = [at_once("fast", 0), at_once("slow", 1.5)]
    try:
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(Daemon.up, homes))
        for running in found:  # each serves its own folder
            assert here().get(f"{running.url}small.json").json()["pid"] == running.pid
    finally:
        for home in homes:
            home.down()


@pytest.mark.parametrize("program", ["import time; time.sleep(600)", STOPS_ITSELF])
def test_a_process_that_does_not_answer_in_time_is_stopped(small: Daemon, program: str) -> None:
    def launch() -> Launch:
        return Launch((sys.executable, "-c", program), os.environ)

    silent = replace(small, launch=launch, healthy=lambda _: False, start_timeout_s=1.0)
    with pytest.raises(Unavailable, match=r"the small server did not answer within 1 s: see "):
        silent.up()
    assert silent.status() is None


def test_a_process_that_still_works_at_the_limit_is_waited_for(
    small: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch() -> Launch:
        argv = (sys.executable, "-c", SLOW_TO_BIND, "1", str(port := local_http.free_port()))
        return Launch(argv, os.environ, f"http://127.0.0.1:{port}/")

    seconds = count(1.0)
    monkeypatch.setattr(daemon, "processor_s", lambda _: next(seconds))
    assert replace(small, launch=launch, start_timeout_s=0.1).up().answered


def test_a_slow_start_is_reported(
    small: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def launch() -> Launch:
        argv = (sys.executable, "-c", SLOW_TO_BIND, "1", str(port := local_http.free_port()))
        return Launch(argv, os.environ, f"http://127.0.0.1:{port}/")

    assert replace(small, launch=launch, report_after_s=0.3).up().answered
    assert re.search(r"the small server is still starting \(\d+ s\)\n", capsys.readouterr().err)


def test_another_version_replaces_only_an_idle_process(small: Daemon) -> None:
    first = small.up()
    busy = replace(small, version=lambda: "2", idle=lambda _: False)
    assert busy.up() == first
    second = replace(small, version=lambda: "2").up()
    assert second.pid != first.pid
    assert not first.alive


def test_a_state_file_of_an_earlier_boot_names_no_running_process(small: Daemon) -> None:
    running = small.up()
    earlier = replace(running, process=f"earlier-boot:{os.getpid()}:1", pid=os.getpid())
    assert not earlier.alive
