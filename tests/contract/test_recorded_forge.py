"""The recorded forge against what the documentation of the three APIs says of their answers."""

from collections.abc import Iterator
from typing import get_args

import httpx
import pytest

from tests.support import forge_gitea, forge_github, forge_gitlab
from tests.support.forge_state import TOKEN, Check
from tests.support.recorded_forge import ForgeKind, RecordedForge, recorded_forge

KINDS = get_args(ForgeKind)
DIALECTS = {"github": forge_github, "gitlab": forge_gitlab, "gitea": forge_gitea}
HEADERS = {
    "github": {"Authorization": f"Bearer {TOKEN}"},
    "gitlab": {"PRIVATE-TOKEN": TOKEN},
    "gitea": {"Authorization": f"token {TOKEN}"},
}
REPO, PROJECT = "/repos/team/app", "/projects/team%2Fapp"
COMMIT = "ab" * 20
ON_LINE = 102
"""Number of the comment on a line of the second pull request."""

DOCUMENTED = {
    "github": {
        f"{REPO}/pulls/1": {"number", "node_id", "html_url", "draft", "head", "mergeable"},
        f"{REPO}/commits/{COMMIT}/check-runs": {"total_count", "check_runs"},
        f"{REPO}/commits/{COMMIT}/status": {"state", "total_count", "statuses"},
        f"{REPO}/issues/1/comments": {"id", "body", "user"},
        f"{REPO}/pulls/2/reviews": {"id", "user", "body", "state", "submitted_at"},
        f"{REPO}/pulls/2/comments": {"id", "user", "body", "path", "line", "diff_hunk"},
        f"{REPO}/collaborators/ann/permission": {"permission", "role_name", "user"},
    },
    "gitlab": {
        f"{PROJECT}/merge_requests/1": {
            "iid",
            "web_url",
            "draft",
            "source_branch",
            "has_conflicts",
        },
        f"{PROJECT}/repository/commits/{COMMIT}/statuses": {
            "id",
            "status",
            "name",
            "allow_failure",
        },
        f"{PROJECT}/merge_requests/1/notes": {"id", "body", "author", "system"},
        f"{PROJECT}/merge_requests/2/discussions": {"id", "individual_note", "notes"},
        "/users?username=ann": {"id", "username"},
        f"/users/{sum(b'ann')}": {"id", "bot"},
        f"{PROJECT}/members/all/{sum(b'ann')}": {"id", "username", "access_level"},
    },
    "gitea": {
        f"{REPO}/pulls/1": {"number", "html_url", "draft", "head", "mergeable"},
        f"{REPO}/commits/{COMMIT}/status": {"state", "total_count", "statuses"},
        f"{REPO}/actions/runs?head_sha={COMMIT}": {"total_count", "workflow_runs"},
        f"{REPO}/actions/runs/7/jobs": {"total_count", "jobs"},
        f"{REPO}/issues/1/comments": {"id", "body", "user"},
        f"{REPO}/pulls/2/reviews": {"id", "user", "body", "state", "comments_count"},
        f"{REPO}/pulls/2/reviews/{ON_LINE}/comments": {"id", "path", "position", "resolver"},
        f"{REPO}/collaborators/ann/permission": {"permission", "role_name", "user"},
    },
}
"""Fields that the documentation of each API shows, by the path that answers with them."""

LISTS = {
    "github": f"{REPO}/commits/{COMMIT}/check-runs?per_page=2",
    "gitlab": f"{PROJECT}/repository/commits/{COMMIT}/statuses?per_page=2",
    "gitea": f"{REPO}/pulls?limit=2",
}


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest) -> Iterator[RecordedForge]:
    with recorded_forge(request.param) as forge:
        for number in range(3):
            pull = forge.state.open_pull(f"b{number}", "main", "One", "Report", draft=False)
            if number == 1:
                forge.state.comment_on_line(pull, "Why?", author="ann")
                forge.state.comment_on(pull, "Change it", author="ann", kind="review")
            else:
                forge.state.comment_on(pull, "Hello", author="ann")
        forge.state.members["ann"] = "write"
        forge.state.results.append([Check(name, "failure", log="boom") for name in "abc"])
        forge.state.checks_of(COMMIT)
        yield forge


@pytest.fixture
def client(forge: RecordedForge) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=forge.api, headers=HEADERS[forge.kind]) as client:
        yield client


def test_answers_have_the_documented_fields(forge: RecordedForge, client: httpx.Client) -> None:
    for path, fields in DOCUMENTED[forge.kind].items():
        body = client.get(path).raise_for_status().json()
        found = body[0] if isinstance(body, list) else body
        assert fields <= found.keys(), path


def test_a_list_comes_in_pages_with_a_link_to_the_next(
    forge: RecordedForge, client: httpx.Client
) -> None:
    forge.most_per_page = 2
    first = client.get(LISTS[forge.kind])
    second = client.get(first.links["next"]["url"])
    assert "next" not in second.links
    sizes = [len(max(_lists(page.json()), key=len)) for page in (first, second)]
    assert sizes == [2, 1]


def _lists(body: object) -> list[list[object]]:
    values = body.values() if isinstance(body, dict) else [body]
    return [value for value in values if isinstance(value, list)]


def test_a_wrong_or_revoked_token_gets_401(forge: RecordedForge, client: httpx.Client) -> None:
    path = next(iter(DOCUMENTED[forge.kind]))
    assert httpx.get(f"{forge.api}{path}").status_code == httpx.codes.UNAUTHORIZED
    forge.state.revoked = True
    refused = client.get(path)
    assert refused.status_code == httpx.codes.UNAUTHORIZED
    assert refused.json().keys() & {"message", "error_description"}


def test_what_does_not_exist_is_404(forge: RecordedForge, client: httpx.Client) -> None:
    for path in (f"{REPO}/pulls/99", f"{PROJECT}/merge_requests/99", "/nowhere"):
        assert client.get(path).status_code == httpx.codes.NOT_FOUND


def test_limits_say_when_to_come_again_and_the_request_after_that_is_answered(
    forge: RecordedForge, client: httpx.Client
) -> None:
    dialect, path = DIALECTS[forge.kind], next(iter(DOCUMENTED[forge.kind]))
    forge.troubles += [dialect.RATE_LIMITED, dialect.TOO_FAST, dialect.BROKEN]
    limited, fast, broken = (client.get(path) for _ in range(3))
    assert limited.status_code in (403, 429)
    assert {"x-ratelimit-reset", "retry-after"} & limited.headers.keys()
    assert "retry-after" in fast.headers
    assert broken.is_server_error
    assert client.get(path).is_success


def test_the_log_of_a_failed_job_can_be_read(forge: RecordedForge, client: httpx.Client) -> None:
    number = forge.state.checks_of(COMMIT)[0].number
    ways = {
        "github": f"{REPO}/actions/jobs/{number}/logs",
        "gitlab": f"{PROJECT}/jobs/{number}/trace",
        "gitea": f"{REPO}/actions/jobs/{number}/logs",
    }
    answer = client.get(ways[forge.kind])
    if forge.kind == "github":  # a link to another host, which refuses this API's token
        link = answer.headers["Location"]
        assert client.get(link).status_code == httpx.codes.UNAUTHORIZED
        answer = httpx.get(link)
    assert answer.text == "boom"


def test_a_draft_becomes_ready(forge: RecordedForge, client: httpx.Client) -> None:
    pull = forge.state.open_pull("drafted", "main", "Draft: WIP: One", "Report", draft=True)
    path = {"gitlab": f"{PROJECT}/merge_requests/4", "gitea": f"{REPO}/pulls/4"}.get(forge.kind)
    if path is None:
        query = "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) }"
        asked = {"query": query, "variables": {"id": "PR_4"}}
        done = client.post(f"{forge.url}/api/graphql", json=asked).json()
        assert "errors" not in done
    else:
        method = "PUT" if forge.kind == "gitlab" else "PATCH"
        client.request(method, path, json={"title": "One"}).raise_for_status()
    assert not pull.draft


def test_a_comment_is_written_and_edited(forge: RecordedForge, client: httpx.Client) -> None:
    is_gitlab = forge.kind == "gitlab"
    listing = f"{PROJECT}/merge_requests/1/notes" if is_gitlab else f"{REPO}/issues/1/comments"
    made = client.post(listing, json={"body": "one"}).raise_for_status().json()
    place = f"{listing}/{made['id']}" if is_gitlab else f"{REPO}/issues/comments/{made['id']}"
    method = "PUT" if is_gitlab else "PATCH"
    client.request(method, place, json={"body": "two"}).raise_for_status()
    assert [one["body"] for one in client.get(listing).json()] == ["Hello", "two"]


def test_a_reply_to_a_comment_on_a_line_stands_in_its_thread(
    forge: RecordedForge, client: httpx.Client
) -> None:
    replies = f"{REPO}/pulls/2/comments/{ON_LINE}/replies"
    if forge.kind == "gitlab":
        replies = f"{PROJECT}/merge_requests/2/discussions/{ON_LINE:040x}/notes"
    answer = client.post(replies, json={"body": "42"})
    threads = [one.thread for one in forge.state.pulls[1].comments]
    if forge.kind == "gitea":  # whose API has no replies
        assert (answer.status_code, threads) == (httpx.codes.NOT_FOUND, [None, None])
    else:
        assert (answer.is_success, threads) == (True, [None, None, ON_LINE])
    forge.state.pulls[1].comments.clear()
    assert client.post(replies, json={"body": "43"}).status_code == httpx.codes.NOT_FOUND
