"""The images of toolchains and MCP servers on the engine: what they take, and which can go."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sandbox.engine import DockerEngine
from sandbox.images import MCP_IMAGES, PACKAGES_LABEL, TOOLCHAIN_IMAGES

_REPOSITORIES = (TOOLCHAIN_IMAGES, MCP_IMAGES)


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """One image. `size` counts its bytes with those of the base image, which all share."""

    name: str
    id: str
    packages: tuple[str, ...]
    size: int
    created: str


def built_images(engine: DockerEngine) -> list[BuiltImage]:
    """Return the images of toolchains and MCP servers, the newest first.

    Raises:
        DockerUnavailable: no engine answers.
    """
    with engine.client("list the images of toolchains") as client:
        listed = client.api.images(filters={"label": PACKAGES_LABEL})
    found = [
        BuiltImage(
            name=name,
            id=entry["Id"],
            packages=tuple(entry["Labels"][PACKAGES_LABEL].split()),
            size=entry["Size"],
            created=datetime.fromtimestamp(entry["Created"], UTC).isoformat(timespec="seconds"),
        )
        for entry in listed
        for tag in entry["RepoTags"] or ()
        # Podman puts the name of a registry before it.
        if (name := tag.rpartition("/")[2]).partition(":")[0] in _REPOSITORIES
    ]
    return sorted(found, key=lambda one: one.created, reverse=True)


def remove_unused(engine: DockerEngine, images: list[BuiltImage]) -> list[BuiltImage]:
    """Remove those that no container, snapshot or environment stands on, and return them."""
    return [one for one in images if engine.remove_image(one.id)]
