"""Every test starts with none of the developer's own settings, and with a home of its own."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import gateway, local
from flows.settings import Settings


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in list(os.environ):
        if name.startswith(("HARNESS_", "PREFECT_")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("HARNESS_HOME", str(home))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect-profile"))
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    yield home
    if (home / "gateway").exists():
        gateway.down(Settings(home=home))


@pytest.fixture(scope="session", autouse=True)
def no_implicit_event_loop() -> None:
    """Python 3.11 would make one for litellm, unasked, and nobody would close it."""
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Prefect server that lives as long as the session."""
    settings = Settings(home=tmp_path_factory.mktemp("prefect"), server_port=0)
    yield local.up(settings).url
    local.down(settings)
