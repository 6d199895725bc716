"""Kept environments: what the install of a project laid down, as an image for later runs.

An environment is used by a commit if the files that decide its install are the same, and if the
commit it was made from is the commit itself or in its history. So no change can leave something
behind for runs that do not contain it.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from contracts.errors import EnvironmentNotFound, GitFailed, ImageUnavailable
from contracts.files import write_atomically
from contracts.sandbox import PersistentSandbox, SnapshotId
from sandbox.engine import DockerEngine
from sandbox.git import our_repository
from sandbox.repos import BaseCommit

_VERSION = "1"
_TTL_S = 10 * 365 * 24 * 3600.0
"""Environments end by the limit on disk, not by age."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One kept environment. `size` counts the bytes that it adds to the image it started from."""

    key: str
    commit: str
    repository: str
    image: SnapshotId
    install: tuple[str, ...]
    seconds: float
    """What the install took."""
    size: int
    created: str
    unreachable: tuple[str, ...] = ()
    """Package indexes that could not be reached."""
    used: str = ""

    @property
    def name(self) -> str:
        """Short name, for people."""
        return f"{self.key[:8]}-{self.commit[:7]}"


class EnvironmentStore:
    """The environments of one home: a file for each in `folder`, an image in the Docker engine."""

    def __init__(self, folder: Path, engine: Callable[[], DockerEngine]) -> None:
        self._folder = folder
        self._engine = engine

    def entries(self) -> list[Environment]:
        """Return all environments, the one that was used last first."""
        found = [one for path in self._folder.glob("*/*.json") if (one := _read(path))]
        return sorted(found, key=lambda one: one.used, reverse=True)

    def find(self, key: str, base: BaseCommit) -> Environment | None:
        """Return the newest environment that this commit may use; removes those that are gone."""
        for one in sorted(self._of(key), key=lambda one: one.created, reverse=True):
            if not _is_in_history(base, one.commit):
                continue
            try:
                self._engine().image(one.image)
            except ImageUnavailable:
                self._path(one).unlink(missing_ok=True)
                continue
            os.utime(self._path(one))
            return one
        return None

    def keep(
        self,
        key: str,
        base: BaseCommit,
        sandbox: PersistentSandbox,
        *,
        start: str,
        install: Sequence[str],
        seconds: float,
        unreachable: Sequence[str] = (),
    ) -> Environment:
        """Save the sandbox's files as the environment of this key; `start` is its first image.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        made = Environment(
            key=key,
            commit=base.commit,
            repository=base.source,
            image=SnapshotId(""),
            install=tuple(install),
            seconds=round(seconds, 1),
            size=0,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            unreachable=tuple(unreachable),
        )
        image = sandbox.checkpoint(_TTL_S, name=f"harness-environment:{made.name}")
        size = self._engine().image(image).size - self._engine().image(start).size
        made = replace(made, image=image, size=max(size, 0))
        path = self._path(made)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, json.dumps(asdict(made)), private=True)
        return made

    def remove(self, one: Environment) -> bool:
        """Remove an environment; return False if a run still needs its image."""
        if not self._engine().remove_image(one.image):
            return False
        self._path(one).unlink(missing_ok=True)
        return True

    def named(self, name: str) -> Environment:
        """Return the environment with this name.

        Raises:
            EnvironmentNotFound: there is none.
        """
        for one in self.entries():
            if one.name == name:
                return one
        raise EnvironmentNotFound(f"no environment {name!r}: `harness env list` shows them")

    def shrink(self, limit: int) -> list[Environment]:
        """Remove those not used for the longest time until the rest has at most `limit` bytes."""
        kept = self.entries()
        removed = []
        while kept and sum(one.size for one in kept) > limit:
            if self.remove(oldest := kept.pop()):
                removed.append(oldest)
        return removed

    def _of(self, key: str) -> list[Environment]:
        return [one for path in (self._folder / key).glob("*.json") if (one := _read(path))]

    def _path(self, one: Environment) -> Path:
        return self._folder / one.key / f"{one.commit}.json"


def environment_key(
    base: BaseCommit, inputs: Callable[[Iterable[str]], Sequence[str]], *parts: str
) -> str:
    """Return the key of the environment that this commit's install gives.

    `inputs` selects the files that decide the install; `parts` is what decides it besides.
    """
    with our_repository(base.bare) as repository:
        listing = repository.git.output("ls-tree", "-r", "-z", base.commit)
    entries = (line.partition(b"\t") for line in listing.split(b"\0") if line)
    blobs = {os.fsdecode(path): head.split()[2].decode() for head, _, path in entries}
    files = [(path, blobs[path]) for path in inputs(blobs)]
    described = json.dumps([_VERSION, base.bare.name, parts, files])
    return hashlib.sha256(described.encode()).hexdigest()[:32]


def _is_in_history(base: BaseCommit, commit: str) -> bool:
    if commit == base.commit:
        return True
    try:
        with our_repository(base.bare) as repository:
            repository.git.merge_base("--is-ancestor", commit, base.commit)
    except GitFailed:
        return False
    return True


def _read(path: Path) -> Environment | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        data = json.loads(path.read_text())
        used = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        lists = {name: tuple(data.get(name, ())) for name in ("install", "unreachable")}
        return Environment(**{**data, **lists, "used": used})
    return None
