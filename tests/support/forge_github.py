"""The answers of GitHub's REST API, version 2022-11-28, as docs.github.com/en/rest shows them."""

from collections.abc import Callable

from tests.support.forge_state import (
    ACCOUNT,
    TOKEN,
    Answer,
    Asked,
    Check,
    Comment,
    ForgeState,
    Issue,
    Listing,
    Pull,
    Review,
    Shape,
)

_DOCS = "https://docs.github.com/rest"
_PROJECT = "/repos/team/app"


def _refusal(status: int, message: str, **more: object) -> Answer:
    return Answer(
        status, {"message": message, "documentation_url": _DOCS, "status": str(status), **more}
    )


UNAUTHORIZED = _refusal(401, "Bad credentials")
NOT_FOUND = _refusal(404, "Not Found")
_FORBIDDEN = _refusal(403, "Resource not accessible by personal access token")

RATE_LIMITED = Answer(
    403,
    {"message": "API rate limit exceeded for user ID 1.", "documentation_url": _DOCS},
    {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "0"},
)
TOO_FAST = Answer(
    429,
    {"message": "You have exceeded a secondary rate limit.", "documentation_url": _DOCS},
    {"retry-after": "0"},
)
BROKEN = Answer(502, "<html><body>502 Bad Gateway</body></html>")


def knows_token(asked: Asked) -> bool:
    return asked.headers.get("authorization") == f"Bearer {TOKEN}"


def stored_log(state: ForgeState, asked: Asked) -> Answer:
    """The storage behind the link to a log refuses requests with credentials of another kind."""
    if "authorization" in asked.headers:
        return Answer(401, "AuthenticationFailed")
    check = state.check(int(asked.path.rpartition("/")[2]))
    return Answer(200, check.log) if check and asked.query.get("sig") == "once" else Answer(403, "")


def _project(state: ForgeState, asked: Asked) -> Answer:
    return Answer(200, {"id": 1, "full_name": "team/app", "default_branch": "main"})


def _branch(state: ForgeState, asked: Asked, name: str) -> Answer:
    if name not in state.branches:
        return _refusal(404, "Branch not found")
    return Answer(200, {"name": name, "commit": {"sha": "0" * 40}, "protected": False})


def _open(state: ForgeState, asked: Asked) -> Answer:
    if state.refuses:
        return _FORBIDDEN
    branch = str(asked.body["head"])
    if state.pull_of(branch):
        error = {
            "resource": "PullRequest",
            "code": "custom",
            "message": f"A pull request already exists for team:{branch}.",
        }
        return _refusal(422, "Validation Failed", errors=[error])
    pull = state.open_pull(
        branch,
        str(asked.body["base"]),
        str(asked.body["title"]),
        str(asked.body["body"]),
        draft=bool(asked.body.get("draft")),
    )
    return Answer(201, _pull_shape(state, pull))


def _pulls(state: ForgeState, asked: Asked) -> Listing:
    owner, _, branch = asked.query.get("head", "").partition(":")
    found = [p for p in state.pulls if not owner or p.branch == branch]
    return Listing([_pull_shape(state, pull) for pull in found])


def _pull(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    return Answer(200, _pull_shape(state, pull)) if pull else NOT_FOUND


def _pull_shape(state: ForgeState, pull: Pull) -> Shape:
    return {
        "id": 1_000 + pull.number,
        "node_id": f"PR_{pull.number}",
        "number": pull.number,
        "state": "open" if pull.state == "open" else "closed",
        "merged": pull.state == "merged",
        "title": pull.title,
        "body": pull.body,
        "draft": pull.draft,
        "html_url": f"{state.url}/team/app/pull/{pull.number}",
        "head": {"ref": pull.branch, "label": f"team:{pull.branch}", "sha": pull.commit},
        "base": {"ref": pull.base},
        "mergeable": not state.conflicts,
        "mergeable_state": "dirty" if state.conflicts else "clean",
    }


def _graphql(state: ForgeState, asked: Asked) -> Answer:
    """Only `markPullRequestReadyForReview`, which REST does not have."""
    given = asked.body["variables"]
    pull = state.pull(str(given["id"]).removeprefix("PR_")) if isinstance(given, dict) else None
    if pull is None or state.refuses or "markPullRequestReadyForReview" not in str(asked.body):
        error = {"type": "NOT_FOUND", "message": "Could not resolve to a node with the global id"}
        return Answer(200, {"data": {"markPullRequestReadyForReview": None}, "errors": [error]})
    pull.draft = False
    data = {"markPullRequestReadyForReview": {"pullRequest": {"isDraft": False}}}
    return Answer(200, {"data": data})


def _check_runs(state: ForgeState, asked: Asked, commit: str) -> Listing:
    runs = [_check_shape(state, check) for check in state.checks_of(commit)]
    return Listing(runs, lambda page: {"total_count": len(runs), "check_runs": list(page)})


def _check_shape(state: ForgeState, check: Check) -> Shape:
    over = check.state in ("success", "failure")
    return {
        "id": check.number,
        "name": check.name,
        "status": "completed" if over else "in_progress" if check.state == "running" else "queued",
        "conclusion": check.state if over else None,
        "html_url": f"{state.url}/team/app/runs/{check.number}",
        "app": {"slug": "github-actions"},
        "output": {"title": check.name, "summary": None, "text": None},
    }


def _status(state: ForgeState, asked: Asked, commit: str) -> Answer:
    return Answer(200, {"state": "pending", "sha": commit, "total_count": 0, "statuses": []})


def _log(state: ForgeState, asked: Asked, number: str) -> Answer:
    if state.check(int(number)) is None:
        return NOT_FOUND
    return Answer(302, "", {"Location": f"{state.url}/storage/{number}?sig=once"})


def _comments(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    thread = state.thread(number)
    if thread is None:
        return NOT_FOUND
    shown = [one for one in thread.comments if one.kind == "comment"]
    return Listing([_comment_shape(state, one) for one in shown])


def _reviews(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    shown = [_review_shape(state, one) for one in pull.comments if one.kind == "review"]
    return Listing([*shown, *map(_own_review_shape, pull.reviews)])


def _line_comments(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    shown = [one for one in pull.comments if one.kind == "line"]
    return Listing([_line_shape(state, one) for one in shown])


def _reply(state: ForgeState, asked: Asked, number: str, first: str) -> Answer:
    pull, thread = state.pull(number), state.comment(first)
    if pull is None or thread is None:
        return NOT_FOUND
    if state.refuses:
        return _FORBIDDEN
    if thread.thread is not None:
        return _refusal(422, "Validation Failed", errors=["in_reply_to is a reply itself"])
    made = state.comment_on(pull, str(asked.body["body"]), kind="line", thread=thread.number)
    made.path, made.line, made.hunk = thread.path, thread.line, thread.hunk
    return Answer(201, _line_shape(state, made))


def _comment(state: ForgeState, asked: Asked, number: str) -> Answer:
    thread = state.thread(number)
    if thread is None or state.refuses:
        return _FORBIDDEN if thread else NOT_FOUND
    made = state.comment_on(thread, str(asked.body["body"]))
    return Answer(201, _comment_shape(state, made))


def _edit_comment(state: ForgeState, asked: Asked, number: str) -> Answer:
    comment = state.comment(number)
    if comment is None:
        return NOT_FOUND
    comment.body = str(asked.body["body"])
    return Answer(200, _comment_shape(state, comment))


def _comment_shape(state: ForgeState, comment: Comment) -> Shape:
    is_bot = comment.author in state.bots
    return {
        "id": comment.number,
        "body": comment.body,
        "user": {"login": comment.author, "type": "Bot" if is_bot else "User"},
        "created_at": comment.written_at,
        "html_url": comment.page,
    }


def _review_shape(state: ForgeState, comment: Comment) -> Shape:
    shape = _comment_shape(state, comment)
    submitted_at = shape.pop("created_at")
    word = "CHANGES_REQUESTED" if comment.asks_for_changes else "COMMENTED"
    return {**shape, "state": word, "submitted_at": submitted_at}


def _line_shape(state: ForgeState, comment: Comment) -> Shape:
    shape = {
        **_comment_shape(state, comment),
        "path": comment.path,
        "line": comment.line,
        "original_line": comment.line,
        "diff_hunk": comment.hunk,
        "pull_request_review_id": comment.review or comment.number,
    }
    return shape if comment.thread is None else {**shape, "in_reply_to_id": comment.thread}


def _permission(state: ForgeState, asked: Asked, name: str) -> Answer:
    permission = state.members.get(name, "none")
    return Answer(200, {"permission": permission, "role_name": permission, "user": {"login": name}})


def _pull_files(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    return Listing([{"filename": name, "patch": patch} for name, patch in pull.patches.items()])


def _review(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull, given = state.pull(number), asked.body
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    lines = given["comments"]
    if not isinstance(lines, list) or given["event"] not in (
        "COMMENT",
        "APPROVE",
        "REQUEST_CHANGES",
    ):
        return _refusal(422, "Unprocessable Entity")
    page = f"{state.url}/team/app/pull/{number}#pullrequestreview-1"
    found = [(one["path"], one["line"], one["body"]) for one in lines]
    pull.reviews.append(
        Review(state.number(), str(given["event"]), str(given["body"]), found, page)
    )
    return Answer(200, _own_review_shape(pull.reviews[-1]))


def _own_review_shape(review: Review) -> Shape:
    return {
        "id": review.number,
        "body": review.body,
        "user": {"login": ACCOUNT, "type": "User"},
        "state": "COMMENTED",
        "submitted_at": review.written_at,
        "html_url": review.page,
    }


def _issues(state: ForgeState, asked: Asked) -> Listing:
    return Listing([_issue_shape(state, issue) for issue in state.issues])


def _issue(state: ForgeState, asked: Asked, number: str) -> Answer:
    issue = state.issue(number)
    return Answer(200, _issue_shape(state, issue)) if issue else NOT_FOUND


def _open_issue(state: ForgeState, asked: Asked) -> Answer:
    if state.refuses:
        return _FORBIDDEN
    issue = state.open_issue(str(asked.body["title"]), str(asked.body["body"]))
    return Answer(201, _issue_shape(state, issue))


def _add_labels(state: ForgeState, asked: Asked, number: str) -> Answer:
    issue, names = state.issue(number), asked.body["labels"]
    if issue is None or state.refuses:
        return _FORBIDDEN if issue else NOT_FOUND
    issue.add_labels(names if isinstance(names, list) else [])
    return Answer(200, [{"id": 1, "name": name} for name in issue.labels])


def _issue_shape(state: ForgeState, issue: Issue) -> Shape:
    return {
        "id": 5_000 + issue.number,
        "number": issue.number,
        "state": "open",
        "title": issue.title,
        "body": issue.body,
        "labels": [{"id": 1, "name": name} for name in issue.labels],
        "user": {"login": issue.author},
        "html_url": f"{state.url}/team/app/issues/{issue.number}",
    }


ROUTES: tuple[tuple[str, str, Callable[..., Answer | Listing]], ...] = (
    ("GET", _PROJECT, _project),
    ("GET", f"{_PROJECT}/branches/([^/]+)", _branch),
    ("POST", f"{_PROJECT}/pulls", _open),
    ("GET", f"{_PROJECT}/pulls", _pulls),
    ("GET", rf"{_PROJECT}/pulls/(\d+)", _pull),
    ("POST", "/api/graphql", _graphql),
    ("GET", f"{_PROJECT}/commits/([^/]+)/check-runs", _check_runs),
    ("GET", f"{_PROJECT}/commits/([^/]+)/status", _status),
    ("GET", rf"{_PROJECT}/actions/jobs/(\d+)/logs", _log),
    ("GET", rf"{_PROJECT}/pulls/(\d+)/files", _pull_files),
    ("GET", rf"{_PROJECT}/pulls/(\d+)/reviews", _reviews),
    ("POST", rf"{_PROJECT}/pulls/(\d+)/reviews", _review),
    ("GET", f"{_PROJECT}/issues", _issues),
    ("POST", f"{_PROJECT}/issues", _open_issue),
    ("GET", rf"{_PROJECT}/issues/(\d+)", _issue),
    ("POST", rf"{_PROJECT}/issues/(\d+)/labels", _add_labels),
    ("GET", rf"{_PROJECT}/issues/(\d+)/comments", _comments),
    ("POST", rf"{_PROJECT}/issues/(\d+)/comments", _comment),
    ("PATCH", rf"{_PROJECT}/issues/comments/(\d+)", _edit_comment),
    ("GET", rf"{_PROJECT}/pulls/(\d+)/comments", _line_comments),
    ("POST", rf"{_PROJECT}/pulls/(\d+)/comments/(\d+)/replies", _reply),
    ("GET", f"{_PROJECT}/collaborators/([^/]+)/permission", _permission),
)
