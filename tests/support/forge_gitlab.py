"""The answers of GitLab's REST API, version 4, as docs.gitlab.com/api shows them."""

from collections.abc import Callable

from tests.support.forge_state import (
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

_PROJECT = "/projects/team%2Fapp"
_LEVELS = {"read": 20, "write": 30, "admin": 40}
_WORDS = {"queued": "pending", "running": "running", "success": "success", "failure": "failed"}

UNAUTHORIZED = Answer(
    401,
    {
        "error": "invalid_token",
        "error_description": "Token was revoked. You have to re-authorize from the user.",
    },
)
NOT_FOUND = Answer(404, {"message": "404 Not found"})
_FORBIDDEN = Answer(403, {"message": "403 Forbidden"})

RATE_LIMITED = Answer(
    429, "Retry later\n", {"Retry-After": "0", "RateLimit-Remaining": "0", "RateLimit-Reset": "0"}
)
TOO_FAST = RATE_LIMITED
BROKEN = Answer(502, "<html><body>502 Whoops, GitLab is taking too much time</body></html>")


def knows_token(asked: Asked) -> bool:
    return asked.headers.get("private-token") == TOKEN


def stored_log(state: ForgeState, asked: Asked) -> Answer:
    return NOT_FOUND


def _project(state: ForgeState, asked: Asked) -> Answer:
    shape = {"id": 1, "path_with_namespace": "team/app", "default_branch": "main"}
    return Answer(200, shape)


def _branch(state: ForgeState, asked: Asked, name: str) -> Answer:
    if name not in state.branches:
        return Answer(404, {"message": "404 Branch Not Found"})
    return Answer(200, {"name": name, "commit": {"id": "0" * 40}, "protected": False})


def _open(state: ForgeState, asked: Asked) -> Answer:
    if state.refuses:
        return _FORBIDDEN
    branch = str(asked.body["source_branch"])
    known = state.pull_of(branch)
    if known:
        why = f"Another open merge request already exists for this source branch: !{known.number}"
        return Answer(409, {"message": [why]})
    title = str(asked.body["title"])
    pull = state.open_pull(
        branch,
        str(asked.body["target_branch"]),
        title,
        str(asked.body["description"]),
        draft=title.startswith("Draft: "),
    )
    return Answer(201, _pull_shape(state, pull))


def _pulls(state: ForgeState, asked: Asked) -> Listing:
    branch = asked.query.get("source_branch")
    found = [pull for pull in state.pulls if branch in (None, pull.branch)]
    return Listing([_pull_shape(state, pull) for pull in found])


def _pull(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    return Answer(200, _pull_shape(state, pull)) if pull else NOT_FOUND


def _edit_pull(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    pull.title = str(asked.body["title"])
    pull.draft = pull.title.startswith("Draft: ")
    return Answer(200, _pull_shape(state, pull))


def _pull_shape(state: ForgeState, pull: Pull) -> Shape:
    return {
        "id": 1_000 + pull.number,
        "iid": pull.number,
        "state": "opened" if pull.state == "open" else pull.state,
        "title": pull.title,
        "description": pull.body,
        "draft": pull.draft,
        "web_url": f"{state.url}/team/app/-/merge_requests/{pull.number}",
        "source_branch": pull.branch,
        "target_branch": pull.base,
        "diff_refs": {"base_sha": "b" * 40, "start_sha": "b" * 40, "head_sha": pull.commit},
        "has_conflicts": state.conflicts,
        "detailed_merge_status": "conflict" if state.conflicts else "mergeable",
    }


def _statuses(state: ForgeState, asked: Asked, commit: str) -> Listing:
    return Listing([_check_shape(state, commit, one) for one in state.checks_of(commit)])


def _check_shape(state: ForgeState, commit: str, check: Check) -> Shape:
    return {
        "id": check.number,
        "sha": commit,
        "ref": "main",
        "status": _WORDS[check.state],
        "name": check.name,
        "description": None,
        "allow_failure": False,
        "target_url": f"{state.url}/team/app/-/jobs/{check.number}",
    }


def _trace(state: ForgeState, asked: Asked, number: str) -> Answer:
    check = state.check(int(number))
    return Answer(200, check.log) if check else NOT_FOUND


def _notes(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    return Listing([_note_shape(one) for one in pull.comments]) if pull else NOT_FOUND


def _discussions(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    firsts = [one for one in pull.comments if one.thread is None]
    return Listing([_discussion_shape(pull, first) for first in firsts])


def _discussion_shape(pull: Pull, first: Comment) -> Shape:
    notes = [one for one in pull.comments if first.number in (one.number, one.thread)]
    return {
        "id": _discussion_id(first),
        "individual_note": first.kind != "line" and len(notes) == 1,
        "notes": [_note_shape(one) for one in notes],
    }


def _discussion_id(first: Comment) -> str:
    return f"{first.number:040x}"


def _reply(state: ForgeState, asked: Asked, number: str, discussion: str) -> Answer:
    pull = state.pull(number)
    firsts = [one for one in pull.comments if _discussion_id(one) == discussion] if pull else []
    if pull is None or not firsts:
        return Answer(404, {"message": "404 Discussion Not Found"})
    if state.refuses:
        return _FORBIDDEN
    made = state.comment_on(pull, str(asked.body["body"]), thread=firsts[0].number)
    return Answer(201, _note_shape(made))


def _note(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    return Answer(201, _note_shape(state.comment_on(pull, str(asked.body["body"]))))


def _edit_note(state: ForgeState, asked: Asked, _: str, number: str) -> Answer:
    comment = state.comment(number)
    if comment is None:
        return NOT_FOUND
    comment.body = str(asked.body["body"])
    return Answer(200, _note_shape(comment))


def _note_shape(comment: Comment) -> Shape:
    shape: Shape = {
        "id": comment.number,
        "type": "DiffNote" if comment.kind == "line" else None,
        "body": comment.body,
        "author": {"id": _account_number(comment.author), "username": comment.author},
        "system": False,
        "created_at": comment.written_at,
    }
    if comment.kind != "line":
        return shape
    position = {"new_path": comment.path, "new_line": comment.line, "old_line": None}
    return {**shape, "position": position, "resolvable": True, "resolved": comment.resolved}


def _account_number(name: str) -> int:
    return sum(name.encode())


def _member(state: ForgeState, asked: Asked, number: str) -> Answer:
    for name, permission in state.members.items():
        if _account_number(name) == int(number):
            level = _LEVELS[permission]
            return Answer(200, {"id": int(number), "username": name, "access_level": level})
    return NOT_FOUND


def _user(state: ForgeState, asked: Asked, number: str) -> Answer:
    is_bot = any(_account_number(name) == int(number) for name in state.bots)
    return Answer(200, {"id": int(number), "state": "active", "bot": is_bot})


def _users(state: ForgeState, asked: Asked) -> Listing:
    name = asked.query["username"]
    return Listing([{"id": _account_number(name), "username": name, "state": "active"}])


def _diffs(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    pull = state.pull(number)
    if pull is None:
        return NOT_FOUND
    files: list[Shape] = [
        {"old_path": name, "new_path": name, "diff": patch} for name, patch in pull.patches.items()
    ]
    return Listing(files)


def _discussion(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull, place = state.pull(number), asked.body["position"]
    if pull is None or state.refuses or not isinstance(place, dict):
        return _FORBIDDEN if pull else NOT_FOUND
    if place["head_sha"] != pull.commit or place["position_type"] != "text":
        return Answer(400, {"message": "400 Bad request - Note {:line_code=>[can't be blank]}"})
    note = state.comment_on(pull, str(asked.body["body"]))
    line = (str(place["new_path"]), int(place["new_line"]), note.body)
    pull.reviews.append(Review(note.number, "", "", [line]))
    return Answer(201, {"id": "6a9c", "notes": [_note_shape(note)]})


def _approve(state: ForgeState, asked: Asked, number: str) -> Answer:
    pull = state.pull(number)
    if pull is None or state.refuses:
        return _FORBIDDEN if pull else NOT_FOUND
    pull.reviews.append(Review(state.number(), "approved"))
    return Answer(201, _pull_shape(state, pull))


def _issues(state: ForgeState, asked: Asked) -> Listing:
    newest = reversed(state.issues) if asked.query.get("sort") == "desc" else state.issues
    return Listing([_issue_shape(state, issue) for issue in newest])


def _issue(state: ForgeState, asked: Asked, number: str) -> Answer:
    issue = state.issue(number)
    return Answer(200, _issue_shape(state, issue)) if issue else NOT_FOUND


def _open_issue(state: ForgeState, asked: Asked) -> Answer:
    if state.refuses:
        return _FORBIDDEN
    issue = state.open_issue(str(asked.body["title"]), str(asked.body["description"]))
    return Answer(201, _issue_shape(state, issue))


def _edit_issue(state: ForgeState, asked: Asked, number: str) -> Answer:
    issue = state.issue(number)
    if issue is None or state.refuses:
        return _FORBIDDEN if issue else NOT_FOUND
    issue.add_labels(str(asked.body["add_labels"]).split(","))
    return Answer(200, _issue_shape(state, issue))


def _issue_notes(state: ForgeState, asked: Asked, number: str) -> Listing | Answer:
    issue = state.issue(number)
    return Listing([_note_shape(one) for one in issue.comments]) if issue else NOT_FOUND


def _issue_note(state: ForgeState, asked: Asked, number: str) -> Answer:
    issue = state.issue(number)
    if issue is None or state.refuses:
        return _FORBIDDEN if issue else NOT_FOUND
    return Answer(201, _note_shape(state.comment_on(issue, str(asked.body["body"]))))


def _issue_shape(state: ForgeState, issue: Issue) -> Shape:
    return {
        "id": 5_000 + issue.number,
        "iid": issue.number,
        "state": "opened",
        "title": issue.title,
        "description": issue.body,
        "labels": list(issue.labels),
        "author": {"id": _account_number(issue.author), "username": issue.author},
        "web_url": f"{state.url}/team/app/-/issues/{issue.number}",
    }


ROUTES: tuple[tuple[str, str, Callable[..., Answer | Listing]], ...] = (
    ("GET", _PROJECT, _project),
    ("GET", f"{_PROJECT}/repository/branches/([^/]+)", _branch),
    ("POST", f"{_PROJECT}/merge_requests", _open),
    ("GET", f"{_PROJECT}/merge_requests", _pulls),
    ("GET", rf"{_PROJECT}/merge_requests/(\d+)", _pull),
    ("PUT", rf"{_PROJECT}/merge_requests/(\d+)", _edit_pull),
    ("GET", f"{_PROJECT}/repository/commits/([^/]+)/statuses", _statuses),
    ("GET", rf"{_PROJECT}/jobs/(\d+)/trace", _trace),
    ("GET", rf"{_PROJECT}/merge_requests/(\d+)/notes", _notes),
    ("POST", rf"{_PROJECT}/merge_requests/(\d+)/notes", _note),
    ("PUT", rf"{_PROJECT}/merge_requests/(\d+)/notes/(\d+)", _edit_note),
    ("GET", rf"{_PROJECT}/merge_requests/(\d+)/diffs", _diffs),
    ("POST", rf"{_PROJECT}/merge_requests/(\d+)/discussions", _discussion),
    ("POST", rf"{_PROJECT}/merge_requests/(\d+)/approve", _approve),
    ("GET", f"{_PROJECT}/issues", _issues),
    ("POST", f"{_PROJECT}/issues", _open_issue),
    ("GET", rf"{_PROJECT}/issues/(\d+)", _issue),
    ("PUT", rf"{_PROJECT}/issues/(\d+)", _edit_issue),
    ("GET", rf"{_PROJECT}/issues/(\d+)/notes", _issue_notes),
    ("POST", rf"{_PROJECT}/issues/(\d+)/notes", _issue_note),
    ("GET", rf"{_PROJECT}/members/all/(\d+)", _member),
    ("GET", "/users", _users),
    ("GET", r"/users/(\d+)", _user),
    ("GET", rf"{_PROJECT}/merge_requests/(\d+)/discussions", _discussions),
    ("POST", rf"{_PROJECT}/merge_requests/(\d+)/discussions/([0-9a-f]+)/notes", _reply),
)
