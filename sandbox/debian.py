"""The Debian that images are built on."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from contracts.errors import ImageUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

_DEBIAN = "debian:bookworm-slim"
_BOOTSTRAPPED = "harness-debian:bookworm"
_NO_DOCS = tuple(
    f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale", "info")
)

OnLine = Callable[[str], None]


def debian_image(client: "DockerClient", on_line: OnLine) -> str:
    """The image to build on: here, pulled, or put together from Debian packages.

    Raises:
        ImageUnavailable: no registry gives it, and it cannot be made here.
    """
    for name in (_DEBIAN, _BOOTSTRAPPED):
        if client.images.list(name):
            return name
    from docker.errors import APIError

    try:
        on_line(f"pulling {_DEBIAN}")
        client.images.pull(_DEBIAN)
    except APIError as error:
        on_line(f"no registry gives {_DEBIAN} ({error.explanation}): bootstrapping it")
        return _bootstrap(client, on_line)
    return _DEBIAN


def _bootstrap(client: "DockerClient", on_line: OnLine) -> str:
    """A Debian image made on this machine from Debian packages."""
    if os.geteuid() != 0 or not Path("/usr/bin/apt-get").exists():
        raise ImageUnavailable(
            f"cannot pull {_DEBIAN}, and making it from packages needs root on a Debian machine: "
            f"run `docker pull {_DEBIAN}` where a registry answers, then try again"
        )
    if not Path("/usr/bin/mmdebstrap").exists():
        _run(("apt-get", "update", "--quiet"), on_line)
        packages = ("mmdebstrap", "debian-archive-keyring")
        _run(("apt-get", "install", "--yes", "--no-install-recommends", *packages), on_line)
    with TemporaryDirectory(prefix="harness-") as place:
        tar = str(Path(place, "debian.tar"))
        on_line("mmdebstrap: putting a minimal Debian together")
        _run(("mmdebstrap", "--quiet", "--variant=minbase", *_NO_DOCS, "bookworm", tar), on_line)
        repository, tag = _BOOTSTRAPPED.split(":")
        client.api.import_image_from_file(tar, repository=repository, tag=tag)
    return _BOOTSTRAPPED


def _run(argv: tuple[str, ...], on_line: OnLine) -> None:
    with subprocess.Popen(
        argv,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        last = "it said nothing"
        for line in process.stdout or ():
            last = line.rstrip() or last
            on_line(last)
    if process.returncode:
        raise ImageUnavailable(f"{argv[0]} failed while making the base image: {last}")
