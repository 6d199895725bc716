"""Commands that are forked from a process with all imports: the same, seen from outside."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess, Popen

import pytest

from flows.host.command_forks import server_name, stop_servers
from flows.host.fork_server import listens
from tests.support.waiting import wait_until

COMMAND = (sys.executable, "-P", "-m", "app")


@pytest.fixture
def env(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """The environment of commands whose fork server is there."""
    own_home.mkdir()
    monkeypatch.delenv("PYTHONPATH", raising=False)
    env = {**os.environ, "HARNESS_FORK_SERVER_IDLE_S": "600"}
    name = server_name(env)
    argv = (sys.executable, "-P", "-m", "flows.host.fork_server", name, "app.forked", "600")
    with Popen(argv, env=env, stdin=subprocess.DEVNULL) as server:
        wait_until(lambda: listens(name))
        yield env
        stop_servers()
        assert server.wait() in {0, -signal.SIGKILL}


def run(
    env: Mapping[str, str], *arguments: str, cwd: Path | None = None
) -> "CompletedProcess[str]":
    argv = (*COMMAND, *arguments)
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)


def forks(env: Mapping[str, str]) -> list[int]:
    """The forks that execute a command now."""
    mark = server_name(env).encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended
            continue
    return found


def idle_server(env: Mapping[str, str]) -> int:
    """The fork server, once no fork executes a command."""

    def alone() -> list[int]:
        found = forks(env)
        return found if len(found) == 1 else []

    return wait_until(alone)[0]


@pytest.mark.parametrize(
    "arguments",
    [
        *(("runs", "list"), ("runs", "show", "nope"), ("run", "nope"), ("run", "--nope")),
        *(("memory", "list"), ("memory", "show", "nope"), ("memory", "search", "bread")),
    ],
)
def test_output_and_exit_code_are_those_of_a_process_of_its_own(
    env: Mapping[str, str], arguments: tuple[str, ...]
) -> None:
    forked = run(env, *arguments)
    alone = run({**env, "TZ": "UTC0"}, *arguments)  # another zone needs a process of its own
    told = (forked.returncode, forked.stdout, forked.stderr)
    assert told == (alone.returncode, alone.stdout, alone.stderr)


def test_a_fork_has_the_folder_and_the_variables_of_its_command(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "here.py").write_text("import os\nraise SystemExit(os.environ['SAYS'])\n")
    said = run(
        {**env, "SAYS": "read in a fork"}, "run", "here.py:it", "--repo", "/nowhere", cwd=folder
    )
    assert "read in a fork" in said.stderr


def test_a_fork_reads_the_input_of_its_command(env: Mapping[str, str], tmp_path: Path) -> None:
    argv = (*COMMAND, "run", "fix-tests", "--repo", str(tmp_path / "nope"), "--intent-from", "-")
    ended = subprocess.run(argv, env=env, input="é", capture_output=True, text=True, check=False)
    assert "nope" in ended.stderr


def test_a_playbook_is_added_by_a_fork(env: Mapping[str, str]) -> None:
    server = idle_server(env)
    argv = (*COMMAND, "memory", "add", "--file", "-")
    with Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        wait_until(lambda: len(forks(env)) == 2)
        it.communicate('{"title": "Bake bread"}')
    assert "bake-bread" in run(env, "memory", "list").stdout
    assert forks(env) == [server]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_command_ends_its_fork(
    env: Mapping[str, str], tmp_path: Path, sign: signal.Signals
) -> None:
    server = idle_server(env)
    (tmp_path / "slow.py").write_text("import time\nopen('begun', 'w')\ntime.sleep(600)\n")
    with Popen(
        (*COMMAND, "run", "slow.py:it", "--repo", "/nowhere"),
        env=env,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    ) as it:
        wait_until((tmp_path / "begun").exists)
        assert len(forks(env)) == 2
        it.send_signal(sign)
        assert it.wait() in {-sign, 130}
        wait_until(lambda: forks(env) == [server])


def test_a_command_is_not_executed_again_when_its_fork_server_dies(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    server = idle_server(env)
    code = "import os, time\nopen('begun', 'a').write('x')\nwhile not os.path.exists('end'):\n"
    (tmp_path / "slow.py").write_text(f"{code}    time.sleep(0.05)\n")
    argv = (*COMMAND, "run", "slow.py:it", "--repo", "/nowhere")
    with Popen(argv, env=env, cwd=tmp_path, stderr=subprocess.PIPE) as it:
        wait_until((tmp_path / "begun").exists)
        os.kill(server, signal.SIGKILL)
        (tmp_path / "end").touch()
        assert it.wait() == 1, "how it ended is not known"
    assert (tmp_path / "begun").read_text() == "x"


def test_a_home_that_leads_nowhere_is_told_in_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os; os.rmdir(os.getcwd()); from app.start import main; main()"
    argv = (sys.executable, "-P", "-c", code, "runs", "list")
    env = {**os.environ, "HARNESS_HOME": "relative"}
    ended = subprocess.run(argv, cwd=gone, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")


def test_the_server_ends_after_an_idle_time(own_home: Path) -> None:
    name = f"harness-test-{os.getpid()}"
    argv = (sys.executable, "-P", "-m", "flows.host.fork_server", name)
    assert subprocess.run((*argv, "tests.support.forked_run", "0.1"), check=False).returncode == 0


def test_a_second_server_with_the_same_name_ends_at_once(env: Mapping[str, str]) -> None:
    argv = (sys.executable, "-P", "-m", "flows.host.fork_server", server_name(env), "app.forked")
    assert subprocess.run((*argv, "600"), env=env, check=False).returncode == 0
    assert listens(server_name(env))


def test_a_changed_installation_ends_the_server(own_home: Path, tmp_path: Path) -> None:
    """The next command is a process of its own, with the new code."""
    name = f"harness-test-{os.getpid()}"
    program = (
        "import sys; from flows.host import fork_server as server; from itertools import count;"
        "versions = count(); server._code = lambda: (next(versions),); server.main()"
    )
    argv = (sys.executable, "-P", "-c", program, name, "tests.support.forked_run", "600")
    with Popen(argv) as server:
        wait_until(lambda: listens(name))
        ask = f"from flows.host.fork_client import run_forked; print(run_forked({name!r}, []))"
        asked = subprocess.run((sys.executable, "-c", ask), capture_output=True, check=True)
        assert asked.stdout == b"None\n"
        assert server.wait() == 0


def test_a_command_is_forked_only_with_the_same_variables(
    env: Mapping[str, str], tmp_path: Path
) -> None:
    assert server_name({**env, "LC_ALL": "C"}) != server_name(env)
    assert server_name({**env, "ANY": "other"}) == server_name(env)
