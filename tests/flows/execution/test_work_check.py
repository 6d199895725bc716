"""The collected work of a run, looked at before it is pushed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.errors import GitFailed
from flows.audit.event_log import event_log
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.runs.home import home_owner
from flows.runs.request import ResolvedRequest
from nodes.commands import shell
from policy.log.event_log import EventLog
from policy.plan.approvals import Approvals
from policy.types import ApprovalReply, ApprovalRequest, ApprovalStatus
from tests.support.flows import Ask
from tests.support.repositories import git

CI = ".github/workflows/ci.yml"
INSTALL = "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/ci.yml"
RUN = "abcd1234"


@pytest.fixture
def log(own_home: Path) -> Iterator[EventLog]:
    with event_log(own_home, home_owner(own_home)) as opened:
        yield opened


@pytest.fixture
def installs(ask: Ask, origin: Path) -> Callable[..., ResolvedRequest]:
    """A blueprint without an agent, whose packages bring a script that changes CI."""

    def request(*changes: str, push: bool = True) -> ResolvedRequest:
        nodes = [deterministic("install", "Install", shell(INSTALL))]
        return ask(blueprint("installs", "Installs", nodes, changes=changes), push=push)

    return request


def test_what_a_script_changed_in_ci_is_not_pushed_without_a_persons_word(
    shop: RunDependencies, installs: Callable[..., ResolvedRequest], origin: Path, log: EventLog
) -> None:
    assert run_blueprint(installs(), shop, run_id=RUN).status == "waiting"
    assert git(origin, "for-each-ref") == ""
    approvals = Approvals(log=log)
    (waits,) = approvals.list(run_id=RUN, pending=True)
    assert waits.arguments["path"] == CI
    approvals.decide(waits.id, "approved", by="ann")
    report = run_blueprint(installs(), shop, run_id=RUN)
    assert (report.status, report.pushed) == ("success", True)


def test_work_that_was_approved_is_pushed_once_the_remote_is_back(
    shop: RunDependencies, installs: Callable[..., ResolvedRequest], origin: Path, log: EventLog
) -> None:
    run_blueprint(installs(), shop, run_id=RUN)
    approvals = Approvals(log=log)
    (waits,) = approvals.list(run_id=RUN, pending=True)
    approvals.decide(waits.id, "approved", by="ann")
    away = origin.rename(origin.with_name("away"))
    with pytest.raises(GitFailed):
        run_blueprint(installs(), shop, run_id=RUN)
    away.rename(origin)
    report = run_blueprint(installs(), shop, run_id=RUN)
    assert (report.status, report.pushed) == ("success", True)


def test_an_intent_that_names_the_file_permits_no_push_and_allow_change_does(
    shop: RunDependencies, installs: Callable[..., ResolvedRequest], origin: Path
) -> None:
    names_it = installs().changed(intent=f"Install it. Do not touch {CI}.")
    report = run_blueprint(names_it, shop, run_id=RUN)
    assert (report.status, report.pushed) == ("waiting", False)
    assert any(f"rerun with --allow-change '{CI}'" in notice for notice in report.notices)
    allowed = installs().changed(allow_change=(".github/workflows/*",))
    report = run_blueprint(allowed, shop, run_id="abcd1235")
    assert (report.status, report.pushed) == ("success", True)


@pytest.mark.parametrize(
    ("allow", "status"),
    [((), "waiting"), ((".husky/**",), "success"), (("tools/husky/**",), "success")],
)
@pytest.mark.parametrize(
    "links",
    [
        {".husky": "tools/husky"},
        {".husky/pre-commit": "../tools/husky/pre-commit"},
        {".husky": "hooks/../a", "hooks": "tools", "a": "tools/husky"},
    ],
)
def test_a_file_that_a_link_of_the_base_makes_a_hook_is_protected(
    shop: RunDependencies,
    ask: Ask,
    repository: Path,
    origin: Path,
    links: dict[str, str],
    allow: tuple[str, ...],
    status: str,
) -> None:
    for link, target in links.items():
        (repository / link).parent.mkdir(exist_ok=True)
        (repository / link).symlink_to(target)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Links")
    writes = "mkdir -p tools/husky && echo evil > tools/husky/pre-commit"
    nodes = [deterministic("work", "Work", shell(writes))]
    request = ask(blueprint("writes", "Writes", nodes), push=True)
    report = run_blueprint(request.changed(allow_change=allow), shop, run_id=RUN)
    assert (report.status, report.pushed) == (status, status == "success")


@pytest.mark.parametrize(
    "work",
    [
        "ln -s evil .husky",
        "ln -s evil .cargo",
        "ln -s x uv.lock",
        "mkdir .vscode && ln -s ../x .vscode/tasks.json",
    ],
)
def test_a_link_that_is_added_in_the_place_of_a_protected_file_is_protected(
    shop: RunDependencies, ask: Ask, origin: Path, work: str
) -> None:
    nodes = [deterministic("work", "Work", shell(work))]
    request = ask(blueprint("links", "Links", nodes), push=True)
    assert run_blueprint(request, shop, run_id=RUN).status == "waiting"


HIDDEN_WRITES = r"""
mkdir -p .github/workflows .circleci tools/husky a b .vscode .claude .mvn
n=.github/work; echo x > ${n}flows/ci.yml
echo eCA+IC5ucG1yYw== | base64 -d >/dev/null; printf x | tee .npmrc
python3 -c "open('AGEN'+'TS.md','w').write('x')"
python3 - <<'E'
import os; os.makedirs('.husky'); open('.husky/pre-commit','w').write('x')
E
cp /dev/null uv.lock; touch CLAUDE.md; ln -s ../x .vscode/tasks.json
install -m 755 /dev/null mvnw; mv mvnw gradlew; echo '{}' > .claude/settings.json
dd if=/dev/zero of=go.sum bs=1 count=1 2>/dev/null; awk 'BEGIN{print "x" > "pip.conf"}'
perl -e 'open F,">",".envrc"' 2>/dev/null || touch .envrc
git init -q sub && git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
echo x > .GitLab-CI.yml; echo x > Jenkinsfile; echo x > a/.cargo
mkdir b/.git-hooks && echo x > b/.git-hooks/y
"""
HIDDEN = {
    ".github/workflows/ci.yml", ".npmrc", "AGENTS.md", ".husky/pre-commit", "uv.lock", "CLAUDE.md",
    ".vscode/tasks.json", "gradlew", ".claude/settings.json", "go.sum", "pip.conf", ".envrc",
    ".GitLab-CI.yml", "Jenkinsfile", "a/.cargo", "b/.git-hooks/y", "sub",
}  # fmt: skip


def test_each_hidden_write_of_a_protected_file_is_asked_about(
    shop: RunDependencies, ask: Ask, origin: Path, log: EventLog
) -> None:
    nodes = [deterministic("work", "Work", shell(HIDDEN_WRITES))]
    request = ask(blueprint("hides", "Hides", nodes), push=True)
    assert run_blueprint(request, shop, run_id=RUN).status == "waiting"
    assert git(origin, "for-each-ref") == ""
    approvals = Approvals(log=log)
    asked = {str(one.arguments["path"]) for one in approvals.list(run_id=RUN, pending=True)}
    assert asked == HIDDEN


def test_a_link_of_the_work_makes_its_target_protected(
    shop: RunDependencies, ask: Ask, origin: Path, log: EventLog
) -> None:
    nodes = [deterministic("work", "Work", shell("mkdir d && touch d/x && ln -s d .husky"))]
    request = ask(blueprint("links", "Links", nodes), push=True).changed(allow_change=(".husky",))
    assert run_blueprint(request, shop, run_id=RUN).status == "waiting"
    approvals = Approvals(log=log)
    (waits,) = approvals.list(run_id=RUN, pending=True)
    assert waits.arguments["path"] == "d/x"


@pytest.mark.parametrize(("changes", "push"), [((".github/**",), True), ((), False)])
def test_what_the_blueprint_names_or_nobody_pushes_waits_for_nobody(
    shop: RunDependencies,
    installs: Callable[..., ResolvedRequest],
    changes: tuple[str, ...],
    push: bool,
) -> None:
    report = run_blueprint(installs(*changes, push=push), shop, run_id=RUN)
    assert (report.status, report.pushed) == ("success", push)


@pytest.mark.parametrize(("word", "pushed"), [("denied", False), ("approved", True)])
def test_a_word_that_comes_while_the_run_ends_counts(
    shop: RunDependencies,
    installs: Callable[..., ResolvedRequest],
    log: EventLog,
    word: ApprovalStatus,
    pushed: bool,
) -> None:
    @contextmanager
    def quick() -> Iterator[Approvals]:
        """Somebody who decides as soon as they are asked."""

        class Quick(Approvals):
            def ask(self, request: ApprovalRequest) -> ApprovalReply:
                reply = super().ask(request)
                if reply.status == "waiting":
                    self.decide(reply.approval, word, by="ann")
                return reply

        yield Quick(log=log)

    report = run_blueprint(installs(), replace(shop, open_approvals=quick), run_id=RUN)
    assert (report.status, report.pushed) == ("success" if pushed else "failure", pushed)
