"""Containers and images of others, however much they look like ours, are never reaped."""

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import reap
from sandbox.spec import (
    CREATOR_LABEL,
    DEADLINE_LABEL,
    OWNER_LABEL,
    RUN_ID_LABEL,
    SandboxSpec,
    container_labels,
    create_flags,
)

pytestmark = pytest.mark.docker

OWN = f"harness-tests-{uuid4().hex[:8]}"
OVERDUE = container_labels(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r")) | {
    DEADLINE_LABEL: "1"
}

NEIGHBOURS = {
    "our name and no label": {},
    "our owner and nothing more": {OWNER_LABEL: OWN},
    "all labels but the owner": {n: v for n, v in OVERDUE.items() if n != OWNER_LABEL},
    "all labels but the deadline": {n: v for n, v in OVERDUE.items() if n != DEADLINE_LABEL},
    "all labels but the run": {n: v for n, v in OVERDUE.items() if n != RUN_ID_LABEL},
    "all labels but the boot": {n: v for n, v in OVERDUE.items() if n != CREATOR_LABEL},
    "an owner that begins like ours": OVERDUE | {OWNER_LABEL: f"{OWN}-2"},
    "an owner that ours begins like": OVERDUE | {OWNER_LABEL: OWN[:-1]},
    "our owner in other letters": OVERDUE | {OWNER_LABEL: OWN.upper()},
    "no owner": OVERDUE | {OWNER_LABEL: ""},
}


@pytest.fixture
def neighbour(engine: DockerEngine, request: pytest.FixtureRequest) -> Iterator[str]:
    """A container that is not ours, with a name that could be."""
    flags = create_flags(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r"))
    given = {"labels": request.param, "name": f"harness-{OWN}-sandbox", "auto_remove": False}
    container = engine.create(flags | given)
    yield container
    engine.remove(container)


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS, indirect=True)
@pytest.mark.parametrize("everything", [False, True])
def test_a_container_without_all_our_labels_stays(
    engine: DockerEngine, neighbour: str, everything: bool
) -> None:
    reaped = reap(engine, OWN, everything=everything)
    assert neighbour not in reaped.containers
    with engine.client("look for it") as client:
        assert client.api.inspect_container(neighbour)["Id"] == neighbour


def test_the_base_image_and_another_owners_snapshot_stay(engine: DockerEngine) -> None:
    flags = create_flags(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r"))
    container = engine.create(flags | {"auto_remove": False})
    image = engine.commit(container, OVERDUE | {OWNER_LABEL: f"{OWN}-2"})
    try:
        engine.remove(container)
        assert image not in reap(engine, OWN, everything=True).snapshots
        with engine.client("look for them") as client:
            assert client.api.inspect_image(image)["Id"] == image
            assert client.api.inspect_image(BASE_IMAGE)
    finally:
        with suppress(AssertionError):
            engine.remove_image(image)
