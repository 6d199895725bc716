"""A Podman service of a test's own; it shares nothing with the machine's."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from tests.support.waiting import wait_until

_RUNTIME = f"""#!{sys.executable}
import json, os, sys

# Podman raises this limit, which root may not do on every machine that runs tests.
arguments = sys.argv[1:]
if "--bundle" in arguments:
    path = os.path.join(arguments[arguments.index("--bundle") + 1], "config.json")
    with open(path) as file:
        config = json.load(file)
    limits = config["process"].get("rlimits", [])
    config["process"]["rlimits"] = [one for one in limits if one["type"] != "RLIMIT_NPROC"]
    with open(path, "w") as file:
        json.dump(config, file)
os.execvp("runc", ["runc", *arguments])
"""
"""Docker's runtime: Podman's own does not take the mixed cgroups of older machines."""


@contextmanager
def own_podman(place: Path, image: str) -> Iterator[Mapping[str, str]]:
    """The variables that lead to a running service with this image of the machine's engine."""
    runtime = place / "runtime"
    runtime.write_text(_RUNTIME)
    runtime.chmod(0o755)
    address = f"unix://{place}/socket"
    argv = (
        "podman", "--root", f"{place}/root", "--runroot", f"{place}/run", "--runtime", runtime,
        "--cgroup-manager=cgroupfs", "--events-backend=file",
        "system", "service", "--time=0", address,
    )  # fmt: skip
    env = {"DOCKER_HOST": address}
    with (place / "log").open("ab") as log:
        service = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        wait_until(lambda: service.poll() is not None or (place / "socket").exists())
        assert service.poll() is None, (place / "log").read_text()[-2000:]
        _copy_image(image, env)
        yield env
    finally:
        service.terminate()
        service.wait()
        _unmount(place)


def has_podman() -> bool:
    """Whether the packages that the service needs are installed, and the tests may start it."""
    return os.geteuid() == 0 and all(map(which, ("podman", "conmon", "runc")))


def _copy_image(image: str, env: Mapping[str, str]) -> None:
    with subprocess.Popen(("docker", "save", image), stdout=subprocess.PIPE) as saved:
        load = ("docker", "load", "--quiet")
        subprocess.run(load, stdin=saved.stdout, env={**os.environ, **env}, check=True)


def _unmount(place: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if Path(mount).is_relative_to(place):
            subprocess.run(("umount", mount), check=True)
