"""Podman's service in place of a Docker engine: the sandboxes keep the same contract."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contracts.errors import ImageUnavailable
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes, list_snapshots, reap
from sandbox.spec import SandboxSpec
from tests.support.own_podman import has_podman, own_podman

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        not has_podman(),
        reason="its service needs root, podman, conmon and runc, which apt installs",
    ),
]

ROOT = Path(__file__).parents[2]
OWNER = "harness-tests-podman"
SPEC = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test")


@pytest.fixture(scope="module")
def podman() -> Iterator[Mapping[str, str]]:
    with (
        TemporaryDirectory(prefix="harness-") as place,
        own_podman(Path(place), BASE_IMAGE) as variables,
    ):
        yield variables


@pytest.fixture
def engine(podman: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> DockerEngine:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    return DockerEngine()


def test_sandboxes_keep_the_same_contract_on_podman(podman: Mapping[str, str]) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not scripted",
         "tests/contract/test_sandbox_commands.py", "tests/contract/test_sandbox_files.py",
         "tests/contract/test_forward.py", "tests/contract/test_persistent.py",
         "tests/sandbox/test_snapshots.py", "tests/sandbox/test_reap.py"),
        cwd=ROOT, env={**os.environ, **podman}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_sandbox_on_podman_has_the_same_restrictions(podman: Mapping[str, str]) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "tests/sandbox/test_seccomp.py", "tests/sandbox/test_hardening.py",
         # Podman writes two small files of its own into a container, and no name for ::1.
         "--deselect=tests/sandbox/test_hardening.py::test_nothing_of_the_host_is_mounted",
         "--deselect=tests/sandbox/test_hardening.py"
         "::test_localhost_is_the_only_name_and_leads_to_the_sandbox"),
        cwd=ROOT, env={**os.environ, **podman}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_snapshots_on_podman_are_found_and_removed(engine: DockerEngine) -> None:
    with DockerSandbox.start(engine, SPEC) as sandbox:
        older = sandbox.checkpoint(3600.0)
        sandbox.restore(older)
        newer = sandbox.checkpoint(3600.0, name="harness-env-podman:test")
        assert {one.id for one in list_snapshots(engine, OWNER)} == {older, newer}
        assert len(list_sandboxes(engine, OWNER)) == 1
    assert engine.remove_image(newer)
    assert [one.id for one in list_snapshots(engine, OWNER)] == [older]
    assert reap(engine, OWNER, everything=True).snapshots == (older,)


def test_an_image_that_podman_does_not_have_is_named(engine: DockerEngine) -> None:
    with pytest.raises(ImageUnavailable, match="no-such-image"):
        DockerSandbox.start(engine, SPEC.model_copy(update={"image": "no-such-image"}))
