"""Who is served, and who is not."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

from app.web.serve import create_app, pages_address
from contracts.errors import SettingsInvalid
from flows.config.settings import UiSettings
from memory.playbooks.library import Library
from memory.types import PlaybookContent
from tests.support.web import HERE


def test_a_page_may_load_nothing_from_elsewhere(client: TestClient, opened: Library) -> None:
    headers = client.get("/playbooks").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "["])
def test_a_foreign_host_name_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://["},
    ],
)
def test_another_site_changes_nothing(
    client: TestClient, opened: Library, headers: dict[str, str]
) -> None:
    made = opened.create(PlaybookContent(title="kept"))
    data = {"status": "archived", "chosen": f"{made.id}@1"}
    assert client.post("/playbooks/status", data=data, headers=headers).status_code == 403
    assert opened.get(made.id).status == "active"


def test_a_token_is_required_if_one_is_set(opened: Library) -> None:
    far = TestClient(create_app(token="sesame"), base_url="http://harness.example")
    assert far.get("/playbooks").status_code == 401
    assert far.get("/playbooks?token=wrong").status_code == 401
    assert far.get("/playbooks", headers={"authorization": "Bearer sesame"}).status_code == 200


def test_the_token_leaves_the_address_at_once(opened: Library) -> None:
    far = TestClient(create_app(token="sesame"), base_url="http://harness.example")
    first = far.get("/playbooks?token=sesame", follow_redirects=False)
    assert first.headers["location"] == "http://harness.example/playbooks"
    assert "HttpOnly" in first.headers["set-cookie"]
    assert far.get("/playbooks").status_code == 200


def test_wrong_tokens_are_slowed_and_then_not_even_looked_at(opened: Library) -> None:
    far = TestClient(create_app(token="sesame"), base_url="http://harness.example")
    answers = [far.get(f"/playbooks?token=no{n}").status_code for n in range(30)]
    assert answers[:10] == [401] * 10
    assert answers[-1] == 429
    right = {"authorization": "Bearer sesame"}
    assert far.get("/playbooks", headers=right).status_code == 429, "else guessing goes on"


def test_a_request_without_a_token_is_no_guess(opened: Library) -> None:
    far = TestClient(create_app(token="sesame"), base_url="http://harness.example")
    assert {far.get("/playbooks").status_code for _ in range(30)} == {401}
    assert far.get("/playbooks", headers={"authorization": "Bearer sesame"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/prompts", "application/json"), ("/playbooks/status", "application/x-www-form-urlencoded")],
)
def test_a_body_that_is_too_long_is_refused_before_it_is_parsed(
    client: TestClient, path: str, kind: str
) -> None:
    def parts() -> Iterator[bytes]:
        """More than the limit, without a length in the header."""
        for _ in range(10):
            yield b"[" * 1_000_000

    headers = {"content-type": kind}
    assert client.post(path, content=parts(), headers=headers).status_code == 413
    assert client.post(path, content=b"x" * 9_000_000, headers=headers).status_code == 413


def test_a_short_token_is_refused_where_others_can_guess_at_it() -> None:
    short = UiSettings(host="0.0.0.0", token=SecretStr("x" * 15))
    with pytest.raises(SettingsInvalid, match="token has 15 characters"):
        pages_address(short)
    assert pages_address(UiSettings(token=SecretStr("x"))).token == "x"
    assert pages_address(UiSettings(host="0.0.0.0", token=SecretStr("x" * 16))).token


def test_other_than_loopback_a_token_is_made() -> None:
    assert pages_address(UiSettings()).token is None
    assert pages_address(UiSettings(host="0.0.0.0")).token


def test_a_form_of_our_own_may_change_things(client: TestClient, opened: Library) -> None:
    made = opened.create(PlaybookContent(title="kept"))
    data = {"status": "archived", "chosen": f"{made.id}@1"}
    own = {"sec-fetch-site": "same-origin", "origin": HERE}
    assert client.post("/playbooks/status", data=data, headers=own).status_code == 200
    assert opened.get(made.id).status == "archived"


@pytest.mark.parametrize(("path", "method"), [("/events", "GET"), ("/plans/x", "GET"),
                                              ("/approvals/x", "POST")])  # fmt: skip
def test_a_program_is_refused_in_json(opened: Library, path: str, method: str) -> None:
    far = TestClient(create_app(token="sesame"), base_url="http://harness.example")
    refused = far.request(method, path)
    assert refused.status_code == 401
    assert refused.json()["error"].startswith("refused: a token is required")
    elsewhere = TestClient(create_app(), base_url="http://evil.example").request(method, path)
    assert (elsewhere.status_code, list(elsewhere.json())) == (403, ["error"])
