"""The base image that every sandbox starts from: here already, or made in about a minute."""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from contracts.errors import ImageUnavailable
from sandbox.engine import Engine

if TYPE_CHECKING:
    from docker import DockerClient

BASE_IMAGE = "harness-base:latest"
RECIPE_LABEL = "harness.recipe"
"""Label on the image: a digest of the files it was built from."""

_DEBIAN = "debian:bookworm-slim"
_BOOTSTRAPPED = "harness-debian:bookworm"
_DOCKERFILE = Path(__file__).with_name("images") / "base.Dockerfile"
_NO_DOCS = tuple(
    f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale", "info")
)

OnLine = Callable[[str], None]


def ensure_base(engine: Engine, on_line: OnLine, *, force: bool = False) -> str:
    """The name of the base image, built first when it is missing or its recipe changed.

    `on_line` gets the progress of a build, line by line; nothing when there is none.
    `force` builds in any case, from the packages there are now.

    Raises:
        DockerUnavailable: no engine answers.
        ImageUnavailable: no Debian to build on, or the build failed.
    """
    with engine.client("get the base image ready") as client:
        if force or not _is_here(client):
            _build(client, _debian(client, on_line), on_line, fresh=force)
    return BASE_IMAGE


def is_current(engine: Engine) -> bool:
    """Whether the base image is here and bears the digest of its recipe.

    Raises:
        DockerUnavailable: no engine answers.
    """
    with engine.client("look for the base image") as client:
        return _is_here(client)


def recipe() -> str:
    """The digest that an up-to-date base image bears."""
    digest = hashlib.sha256()
    for file in sorted(_DOCKERFILE.parent.glob("[!_]*.*")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _is_here(client: "DockerClient") -> bool:
    found = client.images.list(BASE_IMAGE, filters={"label": f"{RECIPE_LABEL}={recipe()}"})
    return bool(found)


def _debian(client: "DockerClient", on_line: OnLine) -> str:
    """The image to build on: here, pulled, or put together from Debian packages."""
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


def _build(client: "DockerClient", debian: str, on_line: OnLine, *, fresh: bool) -> None:
    events = client.api.build(
        path=str(_DOCKERFILE.parent),
        dockerfile=_DOCKERFILE.name,
        buildargs={"BASE": debian},
        labels={RECIPE_LABEL: recipe()},
        tag=BASE_IMAGE,
        nocache=fresh,
        rm=True,
        forcerm=True,
        decode=True,
    )
    for line in build_lines(events):
        on_line(line)


def build_lines(events: Iterator[dict[str, object]]) -> Iterator[str]:
    """What a build prints.

    Raises:
        ImageUnavailable: the build failed; its last line says why.
    """
    last = ""
    for event in events:
        if "error" in event:
            raise ImageUnavailable(f"building the base image failed: {last or event['error']}")
        for line in filter(None, str(event.get("stream", "")).splitlines()):
            last = line
            yield line
