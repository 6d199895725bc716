"""The daemon of the pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from flows.config.settings import Settings, UiSettings
from flows.services.daemons import pages_daemon
from flows.services.local_http import listen_on
from tests.support.here import here


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    try:
        listen_on("::1", 0).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    made = Settings(home=tmp_path / "home", ui=UiSettings(host="::1", port=0))
    yield made
    pages_daemon(made).down()


def test_the_pages_are_served_by_ipv6_and_require_a_configured_token(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_UI__HOST", "::1")
    before = pages_daemon(settings).up()
    assert before.url.startswith("http://[::1]:")
    assert here().get(before.url).is_success
    monkeypatch.setenv("HARNESS_UI__TOKEN", "sesame")
    ui = settings.ui.model_copy(update={"token": SecretStr("sesame")})
    after = pages_daemon(settings.model_copy(update={"ui": ui})).up()
    assert here().get(after.url).status_code == 401
    assert here().get(f"{after.url}?token=sesame", follow_redirects=True).is_success
    assert not before.alive
