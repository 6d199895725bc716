"""gVisor's runtime: a sandbox with a kernel of its own keeps the same contract."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.spec import SandboxSpec
from tests.support.own_engine import OwnEngine, own_engine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        os.geteuid() != 0 or not which("runsc"),
        reason="dockerd needs root, and gVisor its runtime runsc, which apt installs",
    ),
]

ROOT = Path(__file__).parents[2]
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-gvisor", run_id="test", runtime="runsc")

# The limits are the engine's, by cgroups; gVisor's release in Debian cannot set mixed ones.
_ARGUMENTS = ("--network=none", "--ignore-cgroups")


@pytest.fixture(scope="module")
def gvisor() -> Iterator[OwnEngine]:
    """An engine whose runtime is gVisor, with the base image."""
    with TemporaryDirectory(prefix="harness-") as name:
        runsc = {"path": which("runsc"), "runtimeArgs": _ARGUMENTS}
        config = {"runtimes": {"runsc": runsc}, "default-runtime": "runsc"}
        Path(name, "config").write_text(json.dumps(config))
        with own_engine(Path(name), "--config-file=config") as engine:
            engine.load(BASE_IMAGE)
            yield engine


def test_sandboxes_keep_the_same_contract_on_gvisor(gvisor: OwnEngine) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "docker",
         "tests/contract/test_sandbox_commands.py", "tests/contract/test_sandbox_files.py",
         "tests/contract/test_forward.py", "tests/contract/test_persistent.py",
         # gVisor's pipes have no owner, and `ls -l` fails in the release that Debian has.
         "--deselect=tests/contract/test_sandbox_commands.py"
         "::test_a_command_may_open_its_own_streams",
         "--deselect=tests/contract/test_persistent.py"
         "::test_a_command_that_only_reads_is_not_a_change"),
        cwd=ROOT, env={**os.environ, **gvisor.env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_sandbox_runs_on_the_kernel_of_its_runtime(
    gvisor: OwnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in gvisor.env.items():
        monkeypatch.setenv(name, value)
    with DockerSandbox.start(DockerEngine(), SPEC) as sandbox:
        assert b"gVisor" in sandbox.exec(Command(argv=("dmesg",))).stdout


def test_a_runtime_that_the_engine_does_not_have_is_named() -> None:
    with pytest.raises(SandboxLost, match="no-such-runtime"):
        DockerSandbox.start(DockerEngine(), SPEC.model_copy(update={"runtime": "no-such-runtime"}))
