"""The images that sandboxes start from: here already, or made in a minute or two.

The base image has what projects need; the agents image adds Node 22, `claude` and `pi`.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from contracts.errors import ImageUnavailable
from sandbox.debian import OnLine, debian_image
from sandbox.engine import DockerEngine

if TYPE_CHECKING:
    from docker import DockerClient

BASE_IMAGE = "harness-base:latest"
AGENTS_IMAGE = "harness-agents:latest"
RECIPE_LABEL = "harness.recipe"
"""Label on the image: a digest of the files it was built from."""

_FOLDER = Path(__file__).with_name("images")
_STAGE = "harness.stage=fetched"
_HOST_CA = "host-ca.pem"
_HOST_CA_NAMES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """An image of ours and the files it is built from, the Dockerfile first."""

    name: str
    files: tuple[str, ...]
    base: "ImageRecipe | None" = None

    def recipe(self) -> str:
        """The digest that this image bears when it is up to date."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update((_FOLDER / file).read_bytes())
        if self.base is not None:
            digest.update(self.base.recipe().encode())
        return digest.hexdigest()[:16]


BASE_RECIPE = ImageRecipe(name=BASE_IMAGE, files=("base.Dockerfile", "editables.py"))
AGENTS_RECIPE = ImageRecipe(name=AGENTS_IMAGE, files=("agents.Dockerfile",), base=BASE_RECIPE)


def ensure_base(engine: DockerEngine, on_line: OnLine, *, force: bool = False) -> str:
    """The name of the base image, built first when it is missing or its recipe changed.

    `on_line` gets the progress of a build, line by line; nothing when there is none.
    `force` builds in any case, from the packages there are now.

    Raises:
        DockerUnavailable: no engine answers.
        ImageUnavailable: no Debian to build on, or the build failed.
    """
    with engine.client("get the base image ready") as client:
        if force or not _is_here(client, BASE_RECIPE):
            _build(
                client, BASE_RECIPE, {"BASE": debian_image(client, on_line)}, on_line, fresh=force
            )
    return BASE_IMAGE


def ensure_agents(engine: DockerEngine, on_line: OnLine, *, force: bool = False) -> str:
    """The name of the image with the real agents, built first as `ensure_base` does.

    The build fetches the agents from npm. Where the host has certificates of its own for
    that, the build gets them too; the image does not.

    Raises:
        DockerUnavailable: no engine answers.
        ImageUnavailable: the base image or this one cannot be built.
    """
    with engine.client("get the agents image ready") as client:
        if not force and _is_here(client, AGENTS_RECIPE):
            return AGENTS_IMAGE
    base = ensure_base(engine, on_line)
    with engine.client("build the agents image") as client:
        try:
            _build(client, AGENTS_RECIPE, {"BASE": base}, on_line, fresh=force)
        finally:
            client.images.prune(filters={"dangling": True, "label": _STAGE})
    return AGENTS_IMAGE


def is_current(engine: DockerEngine, image: ImageRecipe = BASE_RECIPE) -> bool:
    """Whether the image is here and bears the digest of its recipe.

    Raises:
        DockerUnavailable: no engine answers.
    """
    with engine.client(f"look for {image.name}") as client:
        return _is_here(client, image)


def _is_here(client: "DockerClient", image: ImageRecipe) -> bool:
    """Asked by its name: listing images takes an engine that has fifty a quarter of a second."""
    from docker.errors import ImageNotFound

    try:
        labels = client.images.get(image.name).labels
    except ImageNotFound:
        return False
    return bool(labels.get(RECIPE_LABEL) == image.recipe())


def _build(
    client: "DockerClient",
    image: ImageRecipe,
    arguments: Mapping[str, str],
    on_line: OnLine,
    *,
    fresh: bool,
) -> None:
    with TemporaryDirectory(prefix="harness-") as place:
        for file in image.files:
            copy(_FOLDER / file, place)
        if image is AGENTS_RECIPE:
            Path(place, _HOST_CA).write_bytes(_host_ca())
        events = client.api.build(
            path=place,
            dockerfile=image.files[0],
            buildargs=dict(arguments),
            labels={RECIPE_LABEL: image.recipe()},
            tag=image.name,
            network_mode="host",  # what the host can reach; also without a bridge
            nocache=fresh,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for line in build_output(events, image.name):
            on_line(line)


def _host_ca() -> bytes:
    """The certificates that this host was told to trust besides the usual ones, or nothing."""
    named = (os.environ.get(name, "") for name in _HOST_CA_NAMES)
    bundle = next((path for path in map(Path, filter(None, named)) if path.is_file()), None)
    return b"" if bundle is None else bundle.read_bytes()


def build_output(events: Iterator[dict[str, object]], image: str = BASE_IMAGE) -> Iterator[str]:
    """What a build prints.

    Raises:
        ImageUnavailable: the build failed; its last line says why.
    """
    last = ""
    for event in events:
        if "error" in event:
            raise ImageUnavailable(f"building {image} failed: {last or event['error']}")
        for line in filter(None, str(event.get("stream", "")).splitlines()):
            last = line
            yield line
