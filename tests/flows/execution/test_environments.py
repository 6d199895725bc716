"""Environments: what an install laid down is there for the next run, and for no foreign commit."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, deterministic
from blueprints.library.build_environment import build_environment
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Command, Sandbox
from flows.config.settings import load_settings
from flows.execution.engine import run_blueprint
from flows.execution.wiring import build_dependencies, docker_engine, environment_store
from nodes.projects.work import install_project
from nodes.types import Node
from tests.support.repositories import commit, git
from tests.support.requested import requested
from tests.support.wheel_index import WheelIndex, resolve_here, wheel_index

pytestmark = pytest.mark.docker

TEST = "import dep\ndef test_it(): assert dep.VALUE == 1\n"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    """The index that pip of this machine is configured to use; installs may reach it."""
    resolve_here(monkeypatch)
    with wheel_index("dep") as served:
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setenv("PIP_TRUSTED_HOST", served.url.split("/")[2])
        monkeypatch.setenv("HARNESS_SANDBOX__INSTALL_NETWORK", "true")
        monkeypatch.setenv("HARNESS_MEMORY_ENABLED", "false")
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose only test needs a package of the index."""
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "--quiet", "--initial-branch=main")
    (place / "requirements.txt").write_text("dep\n")
    (place / "test_dep.py").write_text(TEST)
    return committed(place, "One")


def committed(place: Path, message: str) -> Path:
    git(place, "add", "--all")
    commit(place, message)
    return place


def run(definition: Blueprint, repo: Path, run_id: str, model: str = "none") -> RunReport:
    request = requested(definition, repo, model=model)
    return run_blueprint(request, build_dependencies(load_settings()), run_id=run_id)


def install_output(report: RunReport) -> str:
    return next(node.output for node in report.nodes if node.name == "install")


def test_the_second_run_starts_from_what_the_first_installed(
    index: WheelIndex, project: Path
) -> None:
    first = run(build_environment, project, "aaaa0001")
    assert first.status == "success", first.error
    assert any("the install could reach index.test" in line for line in first.notices)
    index.asked.clear()
    (project / "other.py").write_text("")
    committed(project, "Two")
    second = run(build_environment, project, "aaaa0002")
    assert install_output(second).startswith("kept environment "), second.error
    assert index.asked == []
    (kept,) = environment_store(load_settings()).entries()
    assert kept.size > 0


def test_the_files_of_another_commit_are_not_in_the_workspace(
    index: WheelIndex, project: Path
) -> None:
    run(build_environment, project, "aaaa0003")
    (project / "test_dep.py").rename(project / "test_new.py")
    committed(project, "Rename")
    listing = blueprint(
        "listing",
        "Install and list",
        [deterministic("install", "Install", install_project), deterministic("list", "-", _list)],
    )
    report = run(listing, project, "aaaa0004")
    assert install_output(report).startswith("kept environment ")
    assert report.nodes[1].output.split() == ["requirements.txt", "test_new.py"]
    assert report.branch is None


def _list(_: RunContext, sandbox: Sandbox) -> NodeResult:
    return NodeResult.success(sandbox.exec(Command(argv=("ls",))).text)


def test_a_change_of_a_manifest_installs_anew(index: WheelIndex, project: Path) -> None:
    run(build_environment, project, "aaaa0005")
    (project / "requirements.txt").write_text("dep==1.0\n")
    committed(project, "Pin")
    assert "Successfully installed" in install_output(run(build_environment, project, "aaaa0006"))


def test_no_commit_uses_the_environment_of_a_commit_that_it_does_not_contain(
    index: WheelIndex, project: Path
) -> None:
    git(project, "checkout", "--quiet", "-b", "theirs")
    (project / "theirs.py").write_text("")
    committed(project, "Theirs")
    run(build_environment, project, "aaaa0007")
    git(project, "checkout", "--quiet", "main")
    assert "Successfully installed" in install_output(run(build_environment, project, "aaaa0008"))


def test_an_environment_whose_image_is_gone_is_built_again(
    index: WheelIndex, project: Path
) -> None:
    run(build_environment, project, "aaaa0009")
    (kept,) = environment_store(load_settings()).entries()
    docker_engine().remove_image(kept.image)
    again = run(build_environment, project, "aaaa0010")
    assert "Successfully installed" in install_output(again), again.error


def test_over_the_limit_on_disk_the_oldest_environment_goes(
    index: WheelIndex, project: Path
) -> None:
    run(build_environment, project, "aaaa0011")
    store = environment_store(load_settings())
    assert store.shrink(1 << 40) == []
    assert len(store.shrink(0)) == 1
    assert store.entries() == []


def test_once_an_agent_works_the_index_cannot_be_reached(
    index: WheelIndex, project: Path, tmp_path: Path
) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"content": "Done."}) + "\n")
    nodes: list[Node] = [
        deterministic("install", "Install", install_project),
        agentic("work", "Work", prompt=lambda _: "work"),
        deterministic("leak", "Look for a way out", _ways_out),
    ]
    report = run(blueprint("leaky", "-", nodes), project, "aaaa0012", f"scripted/{script}")
    assert report.status == "success", report.error
    assert report.nodes[2].output == "[]"


_PROBE = """
import socket
found = []
for line in open("/proc/net/tcp").readlines()[1:]:
    port = int(line.split()[1].split(":")[1], 16)
    with socket.socket() as s:
        s.settimeout(5)
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(b"GET http://index.test/ HTTP/1.1\\r\\nHost: index.test\\r\\n\\r\\n")
            answer = s.recv(100)
            if answer.startswith(b"HTTP/1.1 200"):
                found.append(port)
        except OSError:
            pass
print(found)
"""


def _ways_out(_: RunContext, sandbox: Sandbox) -> NodeResult:
    return NodeResult.success(sandbox.exec(Command(argv=("python3", "-c", _PROBE))).text)


def test_with_the_setting_off_nothing_is_fetched(
    index: WheelIndex, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX__INSTALL_NETWORK", "false")
    report = run(build_environment, project, "aaaa0013")
    assert index.asked == []
    assert install_output(report) == "nothing to install"
