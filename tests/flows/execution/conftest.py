"""Recorded forges for the tests of what runs write on a forge."""

from collections.abc import Iterator
from typing import get_args

import pytest

from flows.forge.client import ForgeKind
from tests.support.recorded_forge import RecordedForge, recorded_forge


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
