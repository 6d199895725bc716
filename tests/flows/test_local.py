"""The local Prefect server: a real one, started, found again, stopped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from contracts.errors import PrefectUnavailable
from flows import local
from flows.settings import Settings, load_settings

pytestmark = pytest.mark.prefect


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    made = Settings(home=tmp_path / "home", server_port=0)
    yield made
    local.down(made)


def test_a_server_is_found_again_started_again_and_stopped(settings: Settings) -> None:
    first = local.up(settings)
    assert local.up(settings) == first
    os.kill(first.pid, signal.SIGKILL)
    while first.alive:
        sleep(0.05)
    second = local.up(settings)
    assert second.pid != first.pid
    assert local.down(settings)
    assert not second.alive
    assert local.status(settings) is None
    assert not local.down(settings)


def test_a_state_file_that_is_no_json_is_no_server(settings: Settings) -> None:
    (settings.home / "prefect").mkdir(parents=True)
    (settings.home / "prefect" / "server.json").write_text("{")
    assert local.status(settings) is None


def test_a_configured_server_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    nowhere = "http://127.0.0.1:9/api"
    with (
        temporary_settings({PREFECT_API_URL: nowhere}),
        pytest.raises(PrefectUnavailable, match="no Prefect server answers at http://127"),
    ):
        local.api_url(load_settings())


def test_a_configured_server_is_used_and_none_is_started(prefect_api: str, own_home: Path) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: prefect_api}):
        assert local.api_url(load_settings()) == prefect_api
    assert not (own_home / "prefect").exists()
