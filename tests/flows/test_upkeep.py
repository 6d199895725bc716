"""The flows that look after this machine, run as flows."""

from collections.abc import Iterator

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.library import library
from flows.upkeep import prune_memory, reindex_memory
from memory.types import Content

pytestmark = pytest.mark.prefect


@pytest.fixture(autouse=True)
def server(prefect_api: str) -> Iterator[None]:
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        yield


def titles() -> list[str]:
    with library() as opened:
        return [playbook.title for playbook in opened.list()]


def test_pruning_archives_what_is_stale_unless_it_only_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_MAX_AGE_DAYS", "0")
    with library() as opened:
        opened.create(Content(title="Old hat"))
    prune_memory(dry_run=True)
    assert titles() == ["Old hat"]
    prune_memory()
    assert titles() == []


def test_reindexing_keeps_every_playbook_findable() -> None:
    with library() as opened:
        opened.create(Content(title="Mend the build"))
    reindex_memory()
    assert titles() == ["Mend the build"]
