"""Containers and images of others, however much they look like ours, are never reaped."""

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from sandbox.engine import Engine
from sandbox.flags import BOOT, DEADLINE, OWNER, RUN_ID, SandboxSpec, create_flags, labels
from sandbox.images import BASE_IMAGE
from sandbox.reap import reap

pytestmark = pytest.mark.docker

OWN = f"harness-tests-{uuid4().hex[:8]}"
OVERDUE = labels(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r")) | {DEADLINE: "1"}

NEIGHBOURS = {
    "our name and no label": {},
    "our owner and nothing more": {OWNER: OWN},
    "all labels but the owner": {n: v for n, v in OVERDUE.items() if n != OWNER},
    "all labels but the deadline": {n: v for n, v in OVERDUE.items() if n != DEADLINE},
    "all labels but the run": {n: v for n, v in OVERDUE.items() if n != RUN_ID},
    "all labels but the boot": {n: v for n, v in OVERDUE.items() if n != BOOT},
    "an owner that begins like ours": OVERDUE | {OWNER: f"{OWN}-2"},
    "an owner that ours begins like": OVERDUE | {OWNER: OWN[:-1]},
    "our owner in other letters": OVERDUE | {OWNER: OWN.upper()},
    "no owner": OVERDUE | {OWNER: ""},
}


@pytest.fixture
def neighbour(engine: Engine, request: pytest.FixtureRequest) -> Iterator[str]:
    """A container that is not ours, with a name that could be."""
    flags = create_flags(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r"))
    given = {"labels": request.param, "name": f"harness-{OWN}-sandbox", "auto_remove": False}
    container = engine.create(flags | given)
    yield container
    engine.remove(container)


@pytest.mark.parametrize("neighbour", NEIGHBOURS.values(), ids=NEIGHBOURS, indirect=True)
@pytest.mark.parametrize("everything", [False, True])
def test_a_container_that_is_not_wholly_ours_stays(
    engine: Engine, neighbour: str, everything: bool
) -> None:
    reaped = reap(engine, OWN, everything=everything)
    assert neighbour not in reaped.containers
    with engine.client("look for it") as client:
        assert client.api.inspect_container(neighbour)["Id"] == neighbour


def test_the_base_image_and_another_owners_snapshot_stay(engine: Engine) -> None:
    flags = create_flags(SandboxSpec(image=BASE_IMAGE, owner=OWN, run_id="r"))
    container = engine.create(flags | {"auto_remove": False})
    image = engine.commit(container, OVERDUE | {OWNER: f"{OWN}-2"})
    try:
        engine.remove(container)
        assert image not in reap(engine, OWN, everything=True).images
        with engine.client("look for them") as client:
            assert client.api.inspect_image(image)["Id"] == image
            assert client.api.inspect_image(BASE_IMAGE)
    finally:
        with suppress(AssertionError):
            engine.remove_image(image)
