"""Containers and snapshots left by processes that died, found by label and never by name."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from contracts.sandbox import SnapshotId
from sandbox.engine import DockerEngine
from sandbox.process_label import has_exited, is_local
from sandbox.spec import (
    CREATOR_LABEL,
    DEADLINE_LABEL,
    OWNER_LABEL,
    RUN_ID_LABEL,
)

_LABELS = {OWNER_LABEL, RUN_ID_LABEL, CREATOR_LABEL, DEADLINE_LABEL}
_LOOKS = 4
_SETTLE_S = 0.3


@dataclass(frozen=True, kw_only=True)
class SandboxInfo:
    """One container, or the image of one snapshot, as described by its labels."""

    id: str
    kind: str
    owner: str
    run_id: str
    boot: str
    deadline: datetime

    @property
    def state(self) -> str:
        """The state in a word or two, for people."""
        return "left over" if self.is_leftover else "in use"

    @property
    def is_leftover(self) -> bool:
        """Whether the process that made it has exited; for unknown processes, its deadline counts.

        A clock that jumps must not end the sandbox of a living run.
        """
        if is_local(self.boot):
            return has_exited(self.boot)
        return self.deadline < datetime.now(UTC)


class Reaped(NamedTuple):
    """The ids of the removed containers and snapshots."""

    containers: tuple[str, ...]
    snapshots: tuple[str, ...]


def list_sandboxes(engine: DockerEngine, owner: str | None = None) -> tuple[SandboxInfo, ...]:
    """Return all sandboxes of this owner, or of every owner.

    A Docker engine that was killed may list containers that no longer exist.
    """
    # By labels, never by name: a name of ours may belong to a container of somebody else.
    with engine.client("list the sandboxes") as client:
        found = client.api.containers(all=True, filters=_filters(owner))
    infos = _infos(found, "container")
    return tuple(info for info in infos if not info.is_leftover or engine.has(info.id))


def list_snapshots(engine: DockerEngine, owner: str | None = None) -> tuple[SandboxInfo, ...]:
    """Return all snapshot images of this owner, or of every owner, newest first."""
    with engine.client("list the snapshots") as client:
        found = client.api.images(all=True, filters=_filters(owner))
    return _infos(found, "image")


def reap(engine: DockerEngine, owner: str, *, everything: bool = False) -> Reaped:
    """Remove this owner's leftovers, or with `everything` all containers and snapshots.

    After removing some it looks again: Docker may still be finishing a container or a snapshot
    that a killed process had begun to create or remove.
    """
    containers, images = dict[str, None](), dict[str, None]()
    for _ in range(_LOOKS):
        containers_left = _leftovers(list_sandboxes(engine, owner), everything)
        for info in containers_left:
            engine.remove(info.id)
            containers[info.id] = None
        images_left = _leftovers(list_snapshots(engine, owner), everything)
        images |= {info.id: None for info in images_left if engine.remove_image(info.id)}
        if not containers_left and not images_left:
            break
        time.sleep(_SETTLE_S)
    return Reaped(tuple(containers), tuple(images))


def remove_checkpoints(
    engine: DockerEngine, owner: str, run_id: str, *, keep: Collection[SnapshotId] = ()
) -> None:
    """Remove the checkpoints of a run, except those in `keep`.

    A checkpoint that a container or a newer checkpoint builds on stays until that is removed.
    """
    images = [
        info.id
        for info in list_snapshots(engine, owner)
        # Only checkpoints have no creator: they outlive the process that made them.
        if info.run_id == run_id and not info.boot and info.id not in keep
    ]
    before = 0
    while len(images) != before:
        before = len(images)
        images = [image for image in images if not engine.remove_image(image)]


def _filters(owner: str | None) -> dict[str, str]:
    # One label only: Podman finds no image by several.
    return {"label": OWNER_LABEL if owner is None else f"{OWNER_LABEL}={owner}"}


def _infos(found: list[dict[str, object]], kind: str) -> tuple[SandboxInfo, ...]:
    newest_first = sorted(found, key=lambda entry: str(entry["Created"]), reverse=True)
    infos = (_info(entry, kind) for entry in newest_first)
    return tuple(info for info in infos if info is not None)


def _info(entry: Mapping[str, object], kind: str) -> SandboxInfo | None:
    """Return what the labels say, or None if it does not have all of ours."""
    labels = entry["Labels"]
    if not isinstance(labels, dict) or not labels.keys() >= _LABELS:
        return None
    return SandboxInfo(
        id=str(entry["Id"]),
        kind=kind,
        owner=labels[OWNER_LABEL],
        run_id=labels[RUN_ID_LABEL],
        boot=labels[CREATOR_LABEL],
        deadline=_moment(labels[DEADLINE_LABEL]),
    )


def _moment(deadline: str) -> datetime:
    # Another program may have set the label to anything: its container is never a leftover.
    seconds = int(deadline) if deadline.isdigit() else time.time() + 1
    return datetime.fromtimestamp(seconds, UTC)


def _leftovers(infos: tuple[SandboxInfo, ...], everything: bool) -> list[SandboxInfo]:
    return [info for info in infos if everything or info.is_leftover]
