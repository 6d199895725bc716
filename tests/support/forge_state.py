"""What a recorded forge holds, whatever its API: pull requests, comments, checks, members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Shape = dict[str, object]
TOKEN = "t0ken-of-the-team"
ACCOUNT = "harness-bot"
"""The account that the token belongs to."""

CheckState = Literal["queued", "running", "success", "failure"]


class Asked(NamedTuple):
    """One request; `path` is the part after the API's address, with its escapes."""

    method: str
    path: str
    raw_path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Shape


class Answer(NamedTuple):
    """One answer; a body that is text is sent as it is, any other as JSON."""

    status: int
    body: object = None
    headers: Mapping[str, str] = {}


class Listing(NamedTuple):
    """An answer in pages; `wrap` makes the body of one page."""

    items: Sequence[Shape]
    wrap: Callable[[Sequence[Shape]], object] = list


@dataclass
class Check:
    """One job or status of a commit."""

    name: str
    state: CheckState
    log: str = ""
    number: int = 0


CommentKind = Literal["comment", "line", "review"]


def _moment(number: int) -> str:
    return f"2026-11-25T{number // 60:02}:{number % 60:02}:00Z"


@dataclass
class Comment:
    """One comment on a pull request: below it, on a line of the code, or the text of a review.

    `thread` is the first comment of its thread, if it is a reply; `review` is the review that it
    was written in. `asks_for_changes` is a review's.
    """

    number: int
    author: str
    body: str
    page: str = ""
    kind: CommentKind = "comment"
    thread: int | None = None
    review: int | None = None
    path: str = ""
    line: int = 0
    hunk: str = ""
    asks_for_changes: bool = False
    resolved: bool = False

    @property
    def written_at(self) -> str:
        """Later for a greater number."""
        return _moment(self.number)


@dataclass
class Review:
    """One review: its verdict in the forge's word, its text, and its comments on lines.

    GitLab has only the comments.
    """

    number: int
    event: str = ""
    body: str = ""
    lines: list[tuple[str, int, str]] = field(default_factory=list)
    page: str = ""

    @property
    def written_at(self) -> str:
        """Later for a greater number."""
        return _moment(self.number)


@dataclass
class Pull:
    """One pull request. GitLab and Gitea have drafts by the title, GitHub by a field."""

    number: int
    branch: str
    base: str
    title: str
    body: str
    draft: bool
    state: Literal["open", "closed", "merged"] = "open"
    commit: str = "0" * 40
    patches: dict[str, str] = field(default_factory=dict)
    """Hunks of the diff, by file."""
    reviews: list[Review] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)


@dataclass
class Issue:
    """One issue."""

    number: int
    title: str
    body: str
    author: str = ACCOUNT
    labels: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)

    def add_labels(self, names: Sequence[str]) -> None:
        """Add the labels that it does not have yet."""
        self.labels += [name for name in names if name not in self.labels]


@dataclass
class ForgeState:
    """The project `team/app`."""

    url: str = ""
    branches: tuple[str, ...] = ("main",)
    pulls: list[Pull] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    """Account to permission: admin, write or read. Others have none."""
    conflicts: bool = False
    """Pull requests conflict with their base."""
    bots: set[str] = field(default_factory=set)
    """Accounts that belong to programs."""
    results: list[list[Check]] = field(default_factory=list)
    """Checks of the commits that come next, in the order in which they are asked about."""
    checks: dict[str, list[Check]] = field(default_factory=dict)
    """Checks by commit."""
    refuses: bool = False
    """The token may read and may not write."""
    revoked: bool = False
    _numbers: int = 100

    def number(self) -> int:
        """Return a number that nothing else here has."""
        self._numbers += 1
        return self._numbers

    def checks_of(self, commit: str) -> list[Check]:
        """Return the checks of a commit; a commit that is new here gets the next results."""
        if commit not in self.checks:
            self.checks[commit] = self.results.pop(0) if self.results else []
            for check in self.checks[commit]:
                check.number = self.number()
        return self.checks[commit]

    def check(self, number: int) -> Check | None:
        """Return the check with this number."""
        known = (check for checks in self.checks.values() for check in checks)
        return next((check for check in known if check.number == number), None)

    def open_pull(self, branch: str, base: str, title: str, body: str, *, draft: bool) -> Pull:
        """Open a pull request."""
        self.pulls.append(Pull(len(self.pulls) + 1, branch, base, title, body, draft))
        return self.pulls[-1]

    def pull_of(self, branch: str) -> Pull | None:
        """Return the pull request of this branch."""
        return next((pull for pull in self.pulls if pull.branch == branch), None)

    def pull(self, number: str) -> Pull | None:
        """Return the pull request with this number."""
        return next((pull for pull in self.pulls if pull.number == int(number)), None)

    def open_issue(self, title: str, body: str, *, author: str = ACCOUNT) -> Issue:
        """Open an issue."""
        self.issues.append(Issue(self.number(), title, body, author))
        return self.issues[-1]

    def issue(self, number: str) -> Issue | None:
        """Return the issue with this number."""
        return next((issue for issue in self.issues if issue.number == int(number)), None)

    def thread(self, number: str) -> Issue | Pull | None:
        """Return the issue or pull request with this number: they share their numbers."""
        return self.issue(number) or self.pull(number)

    def comment_on(
        self,
        at: Pull | Issue,
        body: str,
        *,
        author: str = ACCOUNT,
        kind: CommentKind = "comment",
        thread: int | None = None,
    ) -> Comment:
        """Add a comment."""
        number = self.number()
        page = f"{self.url}/team/app/issues/{at.number}#issuecomment-{number}"
        at.comments.append(Comment(number, author, body, page, kind, thread))
        return at.comments[-1]

    def comment_on_line(
        self, pull: Pull, body: str, *, author: str, path: str = "answer.txt", line: int = 1
    ) -> Comment:
        """Add a comment on a line of the code."""
        made = self.comment_on(pull, body, author=author, kind="line")
        made.path, made.line, made.hunk = path, line, "@@ -0,0 +1 @@\n+40"
        return made

    def comment(self, number: str) -> Comment | None:
        """Return the comment with this number."""
        threads: list[Pull | Issue] = [*self.pulls, *self.issues]
        known = (one for thread in threads for one in thread.comments)
        return next((comment for comment in known if comment.number == int(number)), None)
