"""Pull requests, asked of a forge on loopback in the dialects of three real ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest

from contracts.errors import ForgeAway, ForgeRefused
from flows.config.settings import ForgeSettings
from flows.forge import client
from flows.forge.checks import read_checks, read_logs
from flows.forge.client import Forge, ForgeKind, connect
from flows.forge.pulls import (
    PullRequest,
    forge_finder,
    mark_ready,
    open_pull_request,
    parse_remote,
    read_pull_request,
    save_comment,
)
from tests.support import forge_gitea, forge_github, forge_gitlab
from tests.support.forge_state import ACCOUNT, TOKEN, Answer, Check
from tests.support.recorded_forge import RecordedForge, recorded_forge

WANTED = PullRequest(branch="harness/3f/fix", base="main", title="fix-tests: mend", body="Report")
KINDS = get_args(ForgeKind)


@pytest.fixture(params=KINDS)
def there(request: pytest.FixtureRequest) -> Iterator[RecordedForge]:
    with recorded_forge(request.param) as forge:
        yield forge


def at(there: RecordedForge, token: str = TOKEN) -> Forge:
    return Forge(kind=there.kind, api=there.api, project="team/app", token=token)


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


def test_a_pull_request_is_opened_as_a_draft(there: RecordedForge) -> None:
    page = open_pull_request(at(there), WANTED).page
    assert page.startswith(there.url)
    assert (there.pull.branch, there.pull.base) == ("harness/3f/fix", "main")
    assert there.pull.draft


def test_a_second_one_of_the_same_branch_is_the_first(there: RecordedForge) -> None:
    first = open_pull_request(at(there), WANTED)
    assert open_pull_request(at(there), WANTED) == first
    assert len(there.state.pulls) == 1


def test_a_base_that_the_forge_has_not_gives_way_to_its_default(there: RecordedForge) -> None:
    open_pull_request(at(there), replace(WANTED, base="only-here"))
    assert there.pull.base == "main"


def test_a_refusal_is_told_in_the_forges_words(there: RecordedForge) -> None:
    there.state.refuses = True
    with pytest.raises(ForgeRefused, match=r"403 .*(not accessible|Forbidden|required scope)"):
        open_pull_request(at(there), WANTED)
    with pytest.raises(ForgeRefused, match="401") as refused:
        open_pull_request(at(there, token="wr0ng-token"), WANTED)
    assert "wr0ng-token" not in str(refused.value)


@pytest.mark.parametrize("api", ["http://127.0.0.1:9", "http://[::1/api"])
def test_a_forge_that_is_away_or_has_no_address_is_told(api: str) -> None:
    away = Forge(kind="gitea", api=api, project="team/app", token=TOKEN)
    with pytest.raises(ForgeRefused, match="no pull request at http://"):
        open_pull_request(away, WANTED)


def test_no_forge_without_a_token_or_on_a_host_nobody_configured() -> None:
    forge = ForgeSettings(kind="gitea", api="https://git.example.org/api/v1", token_variable="TEAM")
    known = {"git.example.org": forge}
    mine = "https://git.example.org/team/app.git"
    assert forge_finder(known, {})(mine) is None
    find = forge_finder(known, {"TEAM": TOKEN})
    assert find("https://evil.example.org/team/app.git") is None
    found = find(mine)
    assert found is not None
    assert (found.project, found.token, TOKEN in repr(found)) == ("team/app", TOKEN, False)


COMMIT = "ab" * 20
LOG = "2026-11-25T18:00:00.1234567Z \x1b[31mE   assert 41 == 42\x1b[0m\n"


def test_checks_run_pass_and_fail_and_the_failed_ones_show_their_logs(
    there: RecordedForge,
) -> None:
    states = {"build": "success", "lint": "failure", "test": "running"}
    there.state.results.append([Check(name, state, LOG) for name, state in states.items()])  # type: ignore[arg-type]  # literals
    checks = read_checks(at(there), COMMIT)
    assert [check.state for check in checks] == ["passed", "failed", "running"]
    logs = read_logs(at(there), [check for check in checks if check.state == "failed"])
    assert "E   assert 41 == 42" in logs
    assert "\x1b" not in logs
    assert "2026-11-25T" not in logs
    assert "lint" in logs


def test_a_commit_that_the_forge_has_no_check_of_has_none(there: RecordedForge) -> None:
    assert read_checks(at(there), COMMIT) == ()


def test_checks_are_read_from_all_pages(there: RecordedForge) -> None:
    there.most_per_page = 2
    there.state.results.append([Check(f"job {number}", "success") for number in range(5)])
    assert len(read_checks(at(there), COMMIT)) == 5


def test_a_long_log_is_cut_and_its_end_stays(there: RecordedForge) -> None:
    there.state.results.append([Check("test", "failure", "first\n" + "x" * 90_000 + "\nlast")])
    logs = read_logs(at(there), read_checks(at(there), COMMIT))
    assert len(logs) < 7_000
    assert logs.endswith("last")


def test_of_a_log_of_many_megabytes_only_the_ends_are_kept(
    there: RecordedForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOG_BYTES", 4_000)
    there.state.results.append([Check("test", "failure", "first\n" + "x" * 2_000_000 + "\nlast")])
    logs = read_logs(at(there), read_checks(at(there), COMMIT))
    assert len(logs) < 4_100
    assert "\nfirst\nxx" in logs
    assert logs.endswith("xx\nlast")


def test_a_limit_and_a_passing_failure_are_waited_for(there: RecordedForge) -> None:
    dialect = {"github": forge_github, "gitlab": forge_gitlab, "gitea": forge_gitea}[there.kind]
    there.troubles += [dialect.RATE_LIMITED, dialect.TOO_FAST, dialect.BROKEN]
    waited: list[float] = []
    with connect(at(there), "nothing", sleep=waited.append) as client:
        assert client.get(at(there).repository)["default_branch"] == "main"
    assert len(waited) == 3


def test_what_may_have_been_done_is_not_asked_for_again(there: RecordedForge) -> None:
    dialect = {"github": forge_github, "gitlab": forge_gitlab, "gitea": forge_gitea}[there.kind]
    there.troubles.append(dialect.BROKEN)
    with pytest.raises(ForgeRefused, match="502"):
        _post(there)
    assert there.state.pulls == []


def _post(there: RecordedForge) -> None:
    forge = at(there)
    with connect(forge, "no pull request") as client:
        client.send("POST", forge.pulls, json={"title": "x"}).raise_for_status()


def test_a_forge_that_allows_nothing_for_an_hour_is_away(there: RecordedForge) -> None:
    there.troubles.append(Answer(429, "later", {"Retry-After": "3600"}))
    with pytest.raises(ForgeAway, match="429"):
        read_checks(at(there), COMMIT)


def test_a_revoked_token_is_a_refusal(there: RecordedForge) -> None:
    there.state.revoked = True
    with pytest.raises(ForgeRefused, match="401") as refused:
        read_checks(at(there), COMMIT)
    assert not isinstance(refused.value, ForgeAway)
    assert TOKEN not in str(refused.value)


def test_a_draft_is_made_ready(there: RecordedForge) -> None:
    pull = open_pull_request(at(there), WANTED)
    assert pull.draft
    mark_ready(at(there), pull)
    shown = read_pull_request(at(there), pull.number)
    assert (shown.draft, shown.title) == (False, WANTED.title)


def test_a_conflict_with_the_base_is_seen(there: RecordedForge) -> None:
    pull = open_pull_request(at(there), WANTED)
    assert pull.may_conflict == (there.kind == "gitea")  # which cannot merge a draft
    mark_ready(at(there), pull)
    assert not read_pull_request(at(there), pull.number).may_conflict
    there.state.conflicts = True
    assert read_pull_request(at(there), pull.number).may_conflict


def test_the_comment_is_edited_also_by_a_process_that_does_not_know_its_number(
    there: RecordedForge,
) -> None:
    number = open_pull_request(at(there), WANTED).number
    there.state.comment_on(there.pull, "<!-- harness report 00 -->", author="mallory")
    first = save_comment(at(there), number, "one", marker="secret", known=None)
    there.state.comment_on(there.pull, "a copy <!-- secret -->", author="mallory")
    assert save_comment(at(there), number, "two @all", marker="secret", known=None) == first
    assert save_comment(at(there), number, "three", marker="secret", known=first) == first
    mine = [one.body for one in there.pull.comments if one.author == ACCOUNT]
    assert mine == ["three\n\n<!-- secret -->"]


def test_the_token_is_never_sent_to_another_host(there: RecordedForge) -> None:
    elsewhere = Answer(200, [], {"Link": '<http://127.0.0.2:9/next>; rel="next"'})
    there.troubles.append(elsewhere)
    with (
        pytest.raises(ForgeRefused, match="another host"),
        connect(at(there), "no list") as client,
    ):
        client.pages(at(there).pulls)
