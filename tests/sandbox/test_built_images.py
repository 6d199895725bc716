"""Images of toolchains and MCP servers: listed with their packages, and removed once unused."""

from collections.abc import Iterator
from io import BytesIO
from uuid import uuid4

import pytest

from sandbox.built_images import BuiltImage, built_images, remove_unused
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE, MCP_IMAGES, PACKAGES_LABEL, TOOLCHAIN_IMAGES

pytestmark = pytest.mark.docker

ENGINE = DockerEngine()


def found(name: str) -> list[BuiltImage]:
    return [one for one in built_images(ENGINE) if one.name == name]


@pytest.fixture(params=[TOOLCHAIN_IMAGES, MCP_IMAGES])
def image(request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"{request.param}:{uuid4().hex[:12]}"
    label = f'LABEL {PACKAGES_LABEL}="gcc make" test={uuid4().hex}'
    with ENGINE.client("build an image") as client:
        dockerfile = BytesIO(f"FROM {BASE_IMAGE}\n{label}\n".encode())
        assert list(client.api.build(fileobj=dockerfile, tag=name))
    yield name
    for one in found(name):
        ENGINE.remove_image(one.id)


def test_an_image_is_listed_with_its_packages(image: str) -> None:
    (one,) = found(image)
    assert one.packages == ("gcc", "make")
    assert one.size >= ENGINE.image(BASE_IMAGE).size


def test_an_unused_image_is_removed(image: str) -> None:
    (one,) = found(image)
    assert remove_unused(ENGINE, [one]) == [one]
    assert found(image) == []


@pytest.mark.parametrize("kept_as", ["container", "snapshot"])
def test_an_image_in_use_stays(image: str, kept_as: str) -> None:
    (one,) = found(image)
    container = ENGINE.create({"image": image, "command": ["true"]})
    snapshot = ENGINE.commit(container, {}) if kept_as == "snapshot" else None
    try:
        if snapshot:
            ENGINE.remove(container)
        assert remove_unused(ENGINE, [one]) == []
        assert found(image) == [one]
    finally:
        ENGINE.remove(container)  # removing it twice is fine
        if snapshot:
            ENGINE.remove_image(snapshot)
