"""The answers of Gitea's REST API, version 1.25, as its swagger file shows them."""

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

_SWAGGER = "https://gitea.example.org/api/swagger"
_PROJECT = "/repos/team/app"
_RUN = 7
"""The only workflow run of a commit."""


def _refusal(status: int, message: str) -> Answer:
    return Answer(status, {"message": message, "url": _SWAGGER})


UNAUTHORIZED = _refusal(401, "invalid username, password or token")
NOT_FOUND = Answer(404, {"errors": [], "message": "The target couldn't be found.", "url": _SWAGGER})
_FORBIDDEN = _refusal(403, "token does not have at least one of required scope(s)")

RATE_LIMITED = Answer(429, "Too Many Requests", {"Retry-After": "0"})
"""Gitea limits nothing itself; the proxy before it may."""
TOO_FAST = RATE_LIMITED
BROKEN = Answer(502, "<html><body>502 Bad Gateway</body></html>")


def knows_token(asked: Asked) -> bool:
    return asked.headers.get("authorization") == f"token {TOKEN}"


def stored_log(state: ForgeState, asked: Asked) -> Answer:
    return NOT_FOUND


def _project(state: ForgeState, asked: Asked) -> Answer:
    return Answer(200, {"id": 1, "full_name": "team/app", "default_branch": "main"})


def _branch(state: ForgeState, asked: Asked, name: str) -> Answer:
    if name not in state.branches:
        return NOT_FOUND
    return Answer(200, {"name": name, "commit": {"id": "0" * 40}, "protected": False})


def _open(state: ForgeState, asked: Asked) -> Answer:
    if state.refuses:
        return _FORBIDDEN
    branch, title = str(asked.body["head"]), str(asked.body["title"])
    known = state.pull_of(branch)
    if known:
        return _refusal(409, f"pull request already exists for these targets [id: {known.number}]")
    base, body = str(asked.body["base"]), str(asked.body["body"])
    draft = title.startswith("WIP: ")
    return Answer(201, _pull_shape(state, state.open_pull(branch, base, title, body, draft=draft)))


def _pulls(state: ForgeState, asked: Asked) -> Listing:
    return Listing([_pull_shape(state, pull) for pull in state.pulls])


def _pull(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    return Answer(200, _pull_shape(state, pull)) if pull else NOT_FOUND


def _edit_pull(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    pull.title = str(asked.body["title"])
    pull.draft = pull.title.startswith("WIP: ")
    return Answer(201, _pull_shape(state, pull))


def _pull_shape(state: ForgeState, pull: Pull) -> Shape:
    return {
        "id": 1_000 + pull.number,
        "number": pull.number,
        "state": "open" if pull.state == "open" else "closed",
        "merged": pull.state == "merged",
        "title": pull.title,
        "body": pull.body,
        "draft": pull.draft,
        "html_url": f"{state.url}/team/app/pulls/{pull.number}",
        "head": {"ref": pull.branch, "label": pull.branch, "sha": pull.commit},
        "base": {"ref": pull.base},
        "mergeable": not state.conflicts and not pull.draft,
    }


def _status(state: ForgeState, asked: Asked, commit: str) -> Answer:
    checks = state.checks_of(commit)
    words = {_word(check) for check in checks}
    worst = next((word for word in ("failure", "pending", "success") if word in words), "")
    statuses = [_status_shape(check) for check in checks]
    shape = {"state": worst, "sha": commit, "total_count": len(checks), "statuses": statuses}
    return Answer(200, shape)


def _word(check: Check) -> str:
    return "pending" if check.state in ("queued", "running") else check.state


def _status_shape(check: Check) -> Shape:
    return {
        "id": check.number,
        "status": _word(check),
        "context": f"ci / {check.name} (push)",
        "description": "Failing after 3s" if check.state == "failure" else "",
        "target_url": f"/team/app/actions/runs/{_RUN}/jobs/0",
    }


def _runs(state: ForgeState, asked: Asked) -> Listing:
    commit = asked.query["head_sha"]
    runs = [{"id": _RUN, "head_sha": commit, "status": "completed"}]
    found = runs if state.checks.get(commit) else []
    return Listing(found, lambda page: {"total_count": len(found), "workflow_runs": list(page)})


def _jobs(state: ForgeState, asked: Asked, number: str) -> Listing:
    newest = list(state.checks.values())[-1] if state.checks else []
    jobs = [_job_shape(check) for check in newest]
    return Listing(jobs, lambda page: {"total_count": len(jobs), "jobs": list(page)})


def _job_shape(check: Check) -> Shape:
    over = check.state in ("success", "failure")
    return {
        "id": check.number,
        "run_id": _RUN,
        "name": check.name,
        "status": "completed" if over else "in_progress" if check.state == "running" else "queued",
        "conclusion": check.state if over else "",
    }


def _log(state: ForgeState, asked: Asked, number: str) -> Answer:
    check = state.check(int(number))
    return Answer(200, check.log) if check else NOT_FOUND


def _comments(state: ForgeState, asked: Asked, number: str) -> Answer:
    thread = state.thread(number)
    if thread is None:
        return NOT_FOUND
    return Answer(200, [_comment_shape(one) for one in thread.comments if one.kind == "comment"])


def _reviews(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    """Every comment on a line belongs to a review."""
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    reviews = [one for one in pull.comments if one.kind != "comment" and one.review is None]
    shown = [_review_shape(one, len(_lines_of(pull, one.number))) for one in reviews]
    return Listing([*shown, *map(_own_review_shape, pull.reviews)])


def _lines_of(pull: Pull, review: int) -> list[Comment]:
    """A comment on a line that has no review is one itself, with the same number."""
    lines = [one for one in pull.comments if one.kind == "line"]
    return [one for one in lines if (one.review or one.number) == review]


def _line_comments(state: ForgeState, asked: Asked, number: str, review: str) -> Answer:
    pull = state.pull(number)
    if pull is None or state.comment(review) is None:
        return NOT_FOUND
    return Answer(200, [_line_shape(one) for one in _lines_of(pull, int(review))])


def _comment(state: ForgeState, asked: Asked, number: str) -> Answer:
    thread = state.thread(number)
    if thread is None or state.refuses:
        return _FORBIDDEN if thread else NOT_FOUND
    return Answer(201, _comment_shape(state.comment_on(thread, str(asked.body["body"]))))


def _edit_comment(state: ForgeState, asked: Asked, number: str) -> Answer:
    comment = state.comment(number)
    if comment is None:
        return NOT_FOUND
    comment.body = str(asked.body["body"])
    return Answer(200, _comment_shape(comment))


def _comment_shape(comment: Comment) -> Shape:
    return {
        "id": comment.number,
        "body": comment.body,
        "user": {"login": comment.author},
        "created_at": comment.written_at,
        "html_url": comment.page,
    }


def _review_shape(comment: Comment, lines: int) -> Shape:
    return {
        "id": comment.number,
        "body": "" if comment.kind == "line" else comment.body,
        "user": {"login": comment.author},
        "state": "REQUEST_CHANGES" if comment.asks_for_changes else "COMMENT",
        "comments_count": lines,
        "submitted_at": comment.written_at,
    }


def _line_shape(comment: Comment) -> Shape:
    return {
        **_comment_shape(comment),
        "path": comment.path,
        "position": comment.line,
        "original_position": 0,
        "diff_hunk": comment.hunk,
        "pull_request_review_id": comment.review or comment.number,
        "resolver": {"login": "ann"} if comment.resolved else None,
    }


def _permission(state: ForgeState, asked: Asked, name: str) -> Answer:
    permission = state.members.get(name, "none")
    return Answer(200, {"permission": permission, "role_name": permission, "user": {"login": name}})


def _diff(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    files = (
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n{patch}\n"
        for name, patch in pull.patches.items()
    )
    return Answer(200, "".join(files))


def _review(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull, given = state.pull(number), asked.body
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    lines = given["comments"]
    if not isinstance(lines, list) or given["event"] not in (
        "COMMENT",
        "APPROVED",
        "REQUEST_CHANGES",
    ):
        return _refusal(422, "Unprocessable Entity")
    page = f"{state.url}/team/app/pull/{number}#pullrequestreview-1"
    found = [(one["path"], one["new_position"], one["body"]) for one in lines]
    pull.reviews.append(
        Review(state.number(), str(given["event"]), str(given["body"]), found, page)
    )
    return Answer(200, _own_review_shape(pull.reviews[-1]))


def _own_review_shape(review: Review) -> Shape:
    return {
        "id": review.number,
        "body": review.body,
        "user": {"login": ACCOUNT},
        "state": "COMMENT",
        "comments_count": 0,
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
    ("PATCH", rf"{_PROJECT}/pulls/(\d+)", _edit_pull),
    ("GET", f"{_PROJECT}/commits/([^/]+)/status", _status),
    ("GET", f"{_PROJECT}/actions/runs", _runs),
    ("GET", rf"{_PROJECT}/actions/runs/(\d+)/jobs", _jobs),
    ("GET", rf"{_PROJECT}/actions/jobs/(\d+)/logs", _log),
    ("GET", rf"{_PROJECT}/pulls/(\d+)\.diff", _diff),
    ("GET", rf"{_PROJECT}/pulls/(\d+)/reviews", _reviews),
    ("POST", rf"{_PROJECT}/pulls/(\d+)/reviews", _review),
    ("GET", f"{_PROJECT}/issues", _issues),
    ("POST", f"{_PROJECT}/issues", _open_issue),
    ("GET", rf"{_PROJECT}/issues/(\d+)", _issue),
    ("POST", rf"{_PROJECT}/issues/(\d+)/labels", _add_labels),
    ("GET", rf"{_PROJECT}/issues/(\d+)/comments", _comments),
    ("POST", rf"{_PROJECT}/issues/(\d+)/comments", _comment),
    ("PATCH", rf"{_PROJECT}/issues/comments/(\d+)", _edit_comment),
    ("GET", rf"{_PROJECT}/pulls/(\d+)/reviews/(\d+)/comments", _line_comments),
    ("GET", f"{_PROJECT}/collaborators/([^/]+)/permission", _permission),
)
