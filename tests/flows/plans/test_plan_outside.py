"""Effects of a plan outside: a page fetched by the proxy, a push with a password."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.chat import ChatRequest, Message, Reply
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.plans.dependencies import plan_dependencies
from flows.plans.report import PlanReport
from flows.plans.request import PlanRequest
from flows.plans.run import draft_plan, open_plan_run, plan_report, record_agreed_plan
from flows.runs.report import to_json
from flows.runs.run_record import read_record
from nodes.commands import shell
from policy.errors import OperationFailed
from tests.support.flows import DONE, Ask
from tests.support.git_repos import make_repo, run_git
from tests.support.git_server import git_server

pytestmark = pytest.mark.docker

NAME = socket.gethostname()
PASSWORD = "correct-horse-battery"
GRANTS = frozenset({"HTTP_FETCH", "GIT_PUSH"})

Go = Callable[..., PlanReport]


def step(op: str, cap: str, deps: list[int], **args: str) -> dict[str, object]:
    return {"op": op, "args": args, "tool_caps": [cap], "deps": deps}


@pytest.fixture
def go(own_home: Path) -> Go:
    """Plans these steps on this repository and runs them one after the other."""

    def run(repo: str, *steps: dict[str, object], allow_change: tuple[str, ...] = ()) -> PlanReport:
        said = json.dumps({"steps": steps})

        def complete(_: ChatRequest) -> Reply:
            return Reply(message=Message(role="assistant", content=said))

        with plan_dependencies(load_settings()) as opened:
            shop = replace(opened, complete=complete)
            words = "do it, also in .github/workflows/x.yml"
            request = PlanRequest(prompt=words, repo=repo, grants=GRANTS, allow_change=allow_change)
            record_agreed_plan(shop, "r1", request, draft_plan(shop, request))
            with open_plan_run(shop, "r1") as going:
                for index in range(len(steps)):
                    going.run_step(index)
            return plan_report(shop, "r1")

    return run


@pytest.fixture
def notes(tmp_path: Path) -> str:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    return str(tmp_path / "notes")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_is_fetched_by_the_proxy_from_allowed_hosts_only(
    go: Go, notes: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pages() as (port, asked):
        host = f"{NAME}:{port}"
        rule = host if allowed else f"{NAME}:1"
        monkeypatch.setenv("HARNESS_SANDBOX__EGRESS", json.dumps([rule]))
        here = socket.gethostbyname(NAME)
        monkeypatch.setenv("HARNESS_SANDBOX__EGRESS_ADDRESSES", json.dumps([here]))
        report = go(notes, step("http_fetch", "HTTP_FETCH", [], url=f"http://{host}/page"))
        (fetched,) = report.steps
        if allowed:
            assert fetched.status == "done", fetched.reason
            assert fetched.output == {"status": 200, "text": "hello from /page"}
            assert asked == ["/page"]
        else:
            assert "'status': 403" in str(fetched.output), "the proxy's own answer"
            assert asked == []


def test_a_push_uses_a_password_that_no_sandbox_and_no_log_sees(
    go: Go, tmp_path: Path, own_home: Path
) -> None:
    bare = tmp_path / "served" / "notes.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    run_git(bare, "config", "http.receivepack", "true")
    look = "env; cat .git/config; grep -rs horse-battery / --include=* --exclude-dir=proc -l; true"
    with git_server(tmp_path / "served", user="ada", password=PASSWORD) as place:
        report = go(
            f"http://ada:{PASSWORD}@{place}/notes.git",
            step("write_file", "WRITE_FILE", [], path="b.txt", text="b"),
            step("git_commit", "GIT_COMMIT", [0], message="Add b"),
            step("run_command", "RUN_COMMAND", [1], command=look),
            step("git_push", "GIT_PUSH", [2], remote="origin", branch="work"),
        )
    assert [one.status for one in report.steps] == ["done"] * 4, report.steps
    assert run_git(bare, "show", "work:b.txt") == "b"
    seen = str(report.steps[2].output)
    assert "PATH=" in seen
    assert PASSWORD not in seen
    (kept,) = holding(PASSWORD, own_home)
    assert kept == own_home / "plans" / "r1.address"
    assert kept.stat().st_mode & 0o077 == 0
    assert PASSWORD not in json.dumps(report.as_json())


@pytest.mark.parametrize("permitted", [True, False])
def test_a_plan_pushes_a_change_of_ci_only_where_allow_change_permits_it(
    go: Go, tmp_path: Path, permitted: bool
) -> None:
    bare = tmp_path / "notes.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    clone = tmp_path / "notes"
    run_git(tmp_path, "clone", "--quiet", str(bare), str(clone))
    hides = "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/x.yml"
    report = go(
        str(clone),
        step("run_command", "RUN_COMMAND", [], command=hides),
        step("git_push", "GIT_PUSH", [0], remote="origin", branch="work"),
        allow_change=(".github/workflows/*",) if permitted else (),
    )
    assert [one.status for one in report.steps] == ["done", "done" if permitted else "failed"]
    named = "rerun with --allow-change '.github/workflows/x.yml', or push the work yourself"
    assert (named in report.steps[1].reason) is not permitted
    assert (run_git(bare, "branch", "--list", "work") != "") is permitted


def test_a_blueprint_of_a_plan_gets_the_repository_and_permissions_of_the_plan(
    repository: Path,
    model: Callable[..., str],
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_MODEL", model(DONE))
    request = PlanRequest(
        prompt="do it",
        repo=str(repository),
        intent="buy tea",
        intent_from="the form",
        allow_change=("uv.lock",),
    )
    with plan_dependencies(load_settings()) as opened:
        opened.run_blueprint(request, "review", "look at it")
    (own,) = (own_home / "runs").iterdir()
    asked = read_record(own)
    assert asked is not None
    assert asked.intent_from == "intent:the form"
    assert asked.allow_change == ("uv.lock",)


@pytest.mark.parametrize("name", ["/srv/mine.md", "/srv/mine.py:mine"])
def test_a_plan_runs_no_blueprint_from_a_file(own_home: Path, name: str) -> None:
    asked = PlanRequest(prompt="do it", repo="/srv/shop")
    refused = pytest.raises(OperationFailed, match="installed blueprints only")
    with plan_dependencies(load_settings()) as opened, refused:
        opened.run_blueprint(asked, name, "look at it")


def test_the_password_of_a_run_s_repository_is_in_no_report_and_no_log(
    shop: RunDependencies, ask: Ask, tmp_path: Path, own_home: Path
) -> None:
    bare = tmp_path / "served" / "notes.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    run_git(bare, "config", "http.receivepack", "true")
    says = blueprint("says", "Says", [deterministic("say", "say it", shell("echo hi > hi.txt"))])
    with git_server(tmp_path / "served", user="ada", password=PASSWORD) as place:
        request = ask(says, repo=f"http://ada:{PASSWORD}@{place}/notes.git", push=True)
        report = run_blueprint(request, shop, run_id="abcd1234")
    assert (report.status, report.pushed) == ("success", True)
    assert PASSWORD not in json.dumps(to_json(report))
    assert holding(PASSWORD, own_home) == [own_home / "runs" / "abcd1234" / "run.json"]
    assert (own_home / "runs" / "abcd1234" / "run.json").stat().st_mode & 0o077 == 0


def holding(text: str, folder: Path) -> list[Path]:
    """The files in which the text stands."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


@contextmanager
def pages() -> Iterator[tuple[int, list[str]]]:
    """A web server on this machine; gives its port and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            text = f"hello from {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((socket.gethostbyname(NAME), 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
