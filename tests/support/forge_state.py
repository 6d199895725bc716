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


@dataclass
class Comment:
    """One comment on a pull request."""

    number: int
    author: str
    body: str


@dataclass
class Pull:
    """One pull request. GitLab and Gitea have drafts by the title, GitHub by a field."""

    number: int
    branch: str
    base: str
    title: str
    body: str
    draft: bool
    conflicts: bool = False
    comments: list[Comment] = field(default_factory=list)


@dataclass
class ForgeState:
    """The project `team/app`."""

    url: str = ""
    branches: tuple[str, ...] = ("main",)
    pulls: list[Pull] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    """Account to permission: admin, write or read. Others have none."""
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

    def comment_on(self, pull: Pull, body: str, *, author: str = ACCOUNT) -> Comment:
        """Add a comment."""
        pull.comments.append(Comment(self.number(), author, body))
        return pull.comments[-1]

    def comment(self, number: str) -> Comment | None:
        """Return the comment with this number."""
        known = (comment for pull in self.pulls for comment in pull.comments)
        return next((comment for comment in known if comment.number == int(number)), None)
