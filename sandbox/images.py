"""The images that sandboxes start from, built when they are missing or outdated.

The base image has what most projects need; an image with agents adds Node 22 and the programs of
the agents; an image for a toolchain adds the packages that a project needs, and projects share it.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from contracts.errors import ImageUnavailable
from sandbox.engine import DockerEngine, imported_image

if TYPE_CHECKING:
    from docker import DockerClient

OnLine = Callable[[str], None]

BASE_IMAGE = "harness-base:latest"
AGENTS_IMAGES = "harness-agents"
"""Repository of the images with agents; the tag names them."""
TOOLCHAIN_IMAGES = "harness-toolchain"
"""Repository of the images for toolchains; the tag is a digest of base and packages."""
MCP_IMAGES = "harness-mcp"
"""Repository of the images for MCP servers; the tag is a digest of their packages."""
PACKAGES_LABEL = "harness.packages"
"""Label on an image for a toolchain: its packages."""
RECIPE_LABEL = "harness.recipe"
"""Label on the image: a digest of the files it was built from."""

_DEBIAN = "debian:bookworm-slim"
_BOOTSTRAPPED = "harness-debian:bookworm"
_NO_DOCS = tuple(
    f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "man", "locale", "info")
)
_FOLDER = Path(__file__).with_name("images")
_LOCK = Path("~/.cache/harness/images.lock")
_NPM = "npm:"
_PYPI = "pypi:"
_STAGE = "harness.stage=fetched"
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_OF_DOCKER = ("Removing intermediate container", " ---> ")
_HOST_CA = "host-ca.pem"
_HOST_CA_NAMES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
_HOST_CA_FOLDERS = ("/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors")
"""Where Debian and Fedora keep certificates that a person added."""


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """An image of ours and the files it is built from, the Dockerfile first."""

    name: str
    files: tuple[str, ...]
    base: "ImageRecipe | None" = None
    folder: Path = _FOLDER
    packages: tuple[str, ...] = ()
    """Packages of Debian, and with `npm:` or `pypi:` before them of these indexes."""

    def recipe(self) -> str:
        """Return the digest in the label of an up-to-date image."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update((self.folder / file).read_bytes())
        if self.base is not None:
            digest.update(self.base.recipe().encode())
        digest.update(" ".join(self.packages).encode())
        return digest.hexdigest()[:16]


BASE_RECIPE = ImageRecipe(name=BASE_IMAGE, files=("base.Dockerfile", "editables.py"))
_NODE = "npm:node@22.23.3"
"""The agents want a newer Node than Debian's."""


def agents_recipe(packages: Mapping[str, Collection[str]]) -> ImageRecipe:
    """Return the image with these agents, given as name to packages; without any, the base image.

    It is a layer for Node and one for each agent, so that images share what they have in common.
    """
    if not packages:
        return BASE_RECIPE
    image, tag = _agents_layer(BASE_RECIPE, "node", (_NODE,)), ""
    for name in sorted(packages):
        tag = f"{tag}_{name}".lstrip("_")
        image = _agents_layer(image, tag, packages[name])
    return image


def _agents_layer(base: ImageRecipe, tag: str, packages: Collection[str]) -> ImageRecipe:
    return ImageRecipe(
        name=f"{AGENTS_IMAGES}:{tag}",
        files=("agents.Dockerfile",),
        base=base,
        packages=tuple(packages),
    )


def toolchain_recipe(base: ImageRecipe, packages: Collection[str]) -> ImageRecipe:
    """Return the image with these packages besides those of `base`; without any, `base` itself."""
    return _with_packages(TOOLCHAIN_IMAGES, "toolchain.Dockerfile", base, packages)


def mcp_recipe(packages: Collection[str]) -> ImageRecipe:
    """Return the image for an MCP server with these packages; without any, the base image."""
    of_npm = any(package.startswith(_NPM) for package in packages)
    base = _agents_layer(BASE_RECIPE, "node", (_NODE,)) if of_npm else BASE_RECIPE
    return _with_packages(MCP_IMAGES, "mcp.Dockerfile", base, packages)


def _with_packages(
    images: str, dockerfile: str, base: ImageRecipe, packages: Collection[str]
) -> ImageRecipe:
    wanted = tuple(sorted(set(packages)))
    if not wanted:
        return base
    digest = hashlib.sha256(" ".join((base.name, *wanted)).encode()).hexdigest()[:12]
    return ImageRecipe(name=f"{images}:{digest}", files=(dockerfile,), base=base, packages=wanted)


def ensure_image(
    engine: DockerEngine, image: ImageRecipe, on_line: OnLine, *, force: bool = False
) -> str:
    """Return the name of the image; build it if it is missing or its recipe changed.

    `on_line` gets the progress of a build, line by line. `force` builds in any case, from the
    packages there are now. A build gets the host's own certificates; the image does not keep them.

    Raises:
        DockerUnavailable: no engine answers.
        ImageUnavailable: no Debian to build on, or the build failed.
    """
    if not force and is_current(engine, image):
        return image.name
    base = None if image.base is None else ensure_image(engine, image.base, on_line)
    with _build_lock(on_line), engine.client(f"build {image.name}") as client:
        if force or not _is_here(client, image):  # another process may have built it meanwhile
            try:
                _build(client, image, base or debian_image(client, on_line), on_line, fresh=force)
            finally:
                client.images.prune(filters={"dangling": True, "label": _STAGE})
    return image.name


@contextmanager
def _build_lock(on_line: OnLine) -> Iterator[None]:
    """Let one process of this user build at a time: pruning would break the build of another."""
    path = _LOCK.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_line("waiting until another process has built its image")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_current(engine: DockerEngine, image: ImageRecipe = BASE_RECIPE) -> bool:
    """Return whether the image exists and was built from the present recipe.

    Raises:
        DockerUnavailable: no engine answers.
    """
    with engine.client(f"look for {image.name}") as client:
        return _is_here(client, image)


def _is_here(client: "DockerClient", image: ImageRecipe) -> bool:
    """Look it up by name: listing takes Docker a quarter of a second for fifty images."""
    from docker.errors import ImageNotFound

    try:
        labels = client.images.get(image.name).labels
    except ImageNotFound:
        return False
    return bool(labels.get(RECIPE_LABEL) == image.recipe())


def _build(
    client: "DockerClient",
    image: ImageRecipe,
    base: str,
    on_line: OnLine,
    *,
    fresh: bool,
) -> None:
    with TemporaryDirectory(prefix="harness-") as place:
        for file in image.files:
            copy(image.folder / file, place)
        Path(place, _HOST_CA).write_bytes(_host_ca())
        events = client.api.build(
            path=place,
            dockerfile=image.files[0],
            # The id, as Podman would look for a name without a registry in Docker's.
            buildargs={"BASE": client.images.get(base).id, **_package_arguments(image)},
            labels={RECIPE_LABEL: image.recipe(), PACKAGES_LABEL: " ".join(image.packages)},
            tag=image.name,
            network_mode="host",  # what the host can reach; also without a bridge
            nocache=fresh,  # else the cached layer keeps the packages of its day
            rm=True,
            forcerm=True,
            decode=True,
        )
        with closing(events):
            for line in build_output(events, image.name):
                on_line(line)


def _package_arguments(image: ImageRecipe) -> dict[str, str]:
    if not image.packages:
        return {}
    npm = [one.removeprefix(_NPM) for one in image.packages if one.startswith(_NPM)]
    pypi = [one.removeprefix(_PYPI) for one in image.packages if one.startswith(_PYPI)]
    debian = [one for one in image.packages if not one.startswith((_NPM, _PYPI))]
    named = {"PYPI": " ".join(pypi)} if pypi else {}  # only one Dockerfile knows this argument
    return {"PACKAGES": " ".join(debian), "NPM": " ".join(npm), **named}


def _host_ca() -> bytes:
    """Return the additional certificates that this host trusts, or nothing."""
    named = (os.environ.get(name, "") for name in _HOST_CA_NAMES)
    bundle = next((path for path in map(Path, filter(None, named)) if path.is_file()), None)
    if bundle is not None:
        return bundle.read_bytes()
    added = (file for folder in _HOST_CA_FOLDERS for file in sorted(Path(folder).glob("**/*.crt")))
    return b"\n".join(file.read_bytes() for file in added)


def build_output(events: Iterator[dict[str, object]], image: str = BASE_IMAGE) -> Iterator[str]:
    """Yield the lines that a build prints.

    Raises:
        ImageUnavailable: the build failed; its last line says why.
    """
    last = ""
    for event in events:
        if "error" in event:
            raise ImageUnavailable(f"building {image} failed: {last or event['error']}")
        text = _COLOUR.sub("", str(event.get("stream", "")))
        for line in filter(str.strip, text.splitlines()):
            last = last if line.startswith(_OF_DOCKER) else line
            yield line


def debian_image(client: "DockerClient", on_line: OnLine) -> str:
    """Return the name of a Debian image: present, pulled, or built from Debian packages.

    Raises:
        ImageUnavailable: it cannot be pulled, and cannot be built here.
    """
    for name in (_DEBIAN, _BOOTSTRAPPED):
        if client.images.list(name):
            return name
    from docker.errors import APIError

    try:
        on_line(f"pulling {_DEBIAN}")
        client.images.pull(_DEBIAN)
    except APIError as error:
        on_line(f"cannot pull {_DEBIAN} ({error.explanation}): building it from packages")
        return _bootstrap(client, on_line)
    return _DEBIAN


def _bootstrap(client: "DockerClient", on_line: OnLine) -> str:
    """Build a Debian image from Debian packages."""
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
        # Podman's import takes no tag.
        image = imported_image(client.api.import_image_from_file(tar))
        client.api.tag(image, repository, tag)
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
        last = "no output"
        for line in process.stdout or ():
            last = line.rstrip() or last
            on_line(last)
    if process.returncode:
        raise ImageUnavailable(f"{argv[0]} failed while making the base image: {last}")
