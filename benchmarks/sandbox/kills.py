"""Kills a harness at random moments, and counts what is left after one reap."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.row import Row
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes, list_snapshots, reap

KILLS = 30
OWNER = "harness-bench-kills"
LONGEST_S = 1.5
"""A victim has started, worked and kept snapshots within this."""
ENGINE_S = 1.0
"""The engine still finishes what the last victim asked it for: a create, a commit."""
_VICTIM = f"""
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.spec import SandboxSpec
spec = SandboxSpec(image={BASE_IMAGE!r}, owner=OWNER, run_id="victim")
print("ready", flush=True)
while True:
    with DockerSandbox.start(DockerEngine(), spec) as sandbox:
        sandbox.exec(Command(argv=("sh", "-c", "setsid sleep 600 & echo x > file")))
        sandbox.restore(sandbox.snapshot())
        sandbox.snapshot()
"""


def rows() -> Iterator[Row]:
    """Containers and images left."""
    containers, images = left_after(KILLS, OWNER)
    for kind, left in (("containers", containers), ("images", images)):
        name = f"{kind} left after {KILLS} kills and one reap"
        yield Row(name=name, ours=left, baseline=KILLS, ratio=left / KILLS, target="0", unit=kind)


def left_after(kills: int, owner: str) -> tuple[int, int]:
    """Kill that many, reap once; the containers and the images that are left."""
    engine = DockerEngine()
    for _ in range(kills):
        _kill_one(owner)
    time.sleep(ENGINE_S)
    reap(engine, owner)
    return len(list_sandboxes(engine, owner)), len(list_snapshots(engine, owner))


def _kill_one(owner: str) -> None:
    program = _VICTIM.replace("OWNER", repr(owner))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(random.uniform(0, LONGEST_S))  # noqa: S311  a moment, not a secret
        victim.kill()
