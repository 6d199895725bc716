"""Recorded forges and a remote, for the tests of what runs push and write on a forge."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from flows.forge.client import ForgeKind
from tests.support.recorded_forge import RecordedForge, recorded_forge
from tests.support.repositories import git


@pytest.fixture(params=get_args(ForgeKind))
def there(request: pytest.FixtureRequest) -> Iterator[RecordedForge]:
    """Each kind of forge in turn."""
    with recorded_forge(request.param) as forge:
        forge.state.members |= {"ann": "write", "eve": "read"}
        yield forge


@pytest.fixture
def gitea() -> Iterator[RecordedForge]:
    """One forge, where the kind makes no difference."""
    with recorded_forge("gitea") as forge:
        yield forge


@pytest.fixture
def origin(repository: Path, tmp_path: Path) -> Path:
    """An empty bare repository: the `origin` of the repository that runs work on."""
    bare = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(bare))
    git(repository, "remote", "add", "origin", str(bare))
    return bare
