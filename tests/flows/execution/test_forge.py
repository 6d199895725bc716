"""Pull requests, asked of a forge on loopback in the dialects of three real ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest

from contracts.errors import ForgeRefused
from contracts.run import NodeReport, RunReport
from flows.config.settings import ForgeSettings
from flows.execution.forge import (
    Forge,
    ForgeKind,
    PullRequest,
    body,
    open_pull_request,
    parse_remote,
    pull_request_opener,
    title,
)
from tests.support.fake_forge import TOKEN, FakeForge, fake_forge

WANTED = PullRequest(branch="harness/3f/fix", base="main", title="fix-tests: mend", body="Report")
KINDS = get_args(ForgeKind)


@pytest.fixture
def there() -> Iterator[FakeForge]:
    with fake_forge() as forge:
        yield forge


def at(there: FakeForge, kind: ForgeKind, token: str = TOKEN) -> Forge:
    return Forge(kind=kind, api=f"{there.url}/{kind}", project="team/app", token=token)


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://github.com/team/app.git", ("github.com", "team/app")),
        ("https://bot:secret@git.example.org:8443/team/app", ("git.example.org:8443", "team/app")),
        ("git@github.com:team/app.git", ("github.com", "team/app")),
        ("ssh://git@git.example.org:2222/group/sub/app.git", ("git.example.org", "group/sub/app")),
        ("/srv/git/app.git", None),
        ("../app", None),
        ("file:///srv/git/app.git", None),
        ("./odd:name", None),
    ],
)
def test_a_remote_tells_its_host_and_project(remote: str, expected: object) -> None:
    assert parse_remote(remote) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_is_opened_as_a_draft(there: FakeForge, kind: ForgeKind) -> None:
    page = open_pull_request(at(there, kind), WANTED)
    assert page.startswith(there.url)
    asked = there.opened[0]
    assert "harness/3f/fix" in asked.values()
    assert "main" in asked.values()
    assert asked.get("draft") or str(asked["title"]).startswith(("Draft: ", "WIP: "))


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_one_of_the_same_branch_is_the_first(there: FakeForge, kind: ForgeKind) -> None:
    first = open_pull_request(at(there, kind), WANTED)
    assert open_pull_request(at(there, kind), WANTED) == first
    assert len(there.opened) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_base_that_the_forge_has_not_gives_way_to_its_default(
    there: FakeForge, kind: ForgeKind
) -> None:
    open_pull_request(at(there, kind), replace(WANTED, base="only-here"))
    assert "main" in there.opened[0].values()


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_told_in_the_forges_words(there: FakeForge, kind: ForgeKind) -> None:
    there.refuses = True
    with pytest.raises(ForgeRefused, match=r"403 .*not accessible"):
        open_pull_request(at(there, kind), WANTED)
    with pytest.raises(ForgeRefused, match="401") as refused:
        open_pull_request(at(there, kind, token="wr0ng-token"), WANTED)
    assert "wr0ng-token" not in str(refused.value)


@pytest.mark.parametrize("api", ["http://127.0.0.1:9", "http://[::1/api"])
def test_a_forge_that_is_away_or_has_no_address_is_told(api: str) -> None:
    away = Forge(kind="gitea", api=api, project="team/app", token=TOKEN)
    with pytest.raises(ForgeRefused, match="no pull request at http://"):
        open_pull_request(away, WANTED)


REPORT = RunReport(
    run_id="3f9a0c1d",
    blueprint="fix-tests",
    status="success",
    intent="fixes #12\n/close\n@everyone https://github.com/team/app/issues/7",
    branch="harness/3f9a0c1d/fix-tests",
    nodes=(NodeReport(name="fix", type="agentic", status="failure", error="/merge @all"),),
)


def test_nothing_from_a_run_has_power_in_a_pull_request() -> None:
    for text in (title(REPORT), body(REPORT)):
        assert "#12" not in text
        assert "@everyone" not in text
        assert "https://github" not in text
        assert not [line for line in text.splitlines() if line.lstrip().startswith("/")]


def test_no_pull_request_without_a_token_or_on_a_host_nobody_configured(there: FakeForge) -> None:
    forge = ForgeSettings(kind="gitea", api=f"{there.url}/gitea", token_variable="TEAM_TOKEN")
    known = {"git.example.org": forge}
    mine = "https://git.example.org/team/app.git"
    assert pull_request_opener(known, {})(mine, "main", REPORT) is None
    asked = pull_request_opener(known, {"TEAM_TOKEN": TOKEN})
    assert asked("https://evil.example.org/team/app.git", "main", REPORT) is None
    assert there.opened == []
    assert asked(mine, "main", REPORT) == f"{there.url}/team/app/pulls/1"
