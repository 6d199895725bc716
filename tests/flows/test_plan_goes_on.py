"""A plan that goes on in another process, another day or elsewhere goes on with the same work."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.json import Json
from contracts.sandbox import SnapshotId
from flows.plan_request import PlanRequest
from flows.plan_run import PlanShop, begin, draft_plan, open_run
from flows.plan_wiring import plan_shop
from flows.policy_settings import PolicySettings
from flows.settings import load_settings
from flows.workshop import Opened
from policy.executor import Outcome
from sandbox.scripted import ScriptedSandbox
from tests.sandbox.git_repos import make_repo, run_git

ORIGIN = {"origin": frozenset({"origin"})}


def step(op: str, *deps: int, **args: Json) -> Json:
    return {"op": op, "args": args, "tool_caps": [op.upper()], "deps": deps}


PUSH = step("git_push", 0, remote="origin", branch="work")


@contextmanager
def scripted_sandbox(checkpoint: SnapshotId | None) -> Iterator[Opened]:
    made = ScriptedSandbox() if checkpoint is None else ScriptedSandbox.resume(checkpoint)
    with made as sandbox:
        yield Opened(sandbox, {})


Begun = Callable[..., PlanShop]


@pytest.fixture
def begun(own_home: Path) -> Iterator[Begun]:
    """Has a plan of these steps agreed to, as run r1."""
    policy = PolicySettings(principals=ORIGIN)
    with plan_shop(
        load_settings(), policy=policy, open_sandbox=lambda _: scripted_sandbox
    ) as opened:

        def begin_plan(repo: str | Path, *steps: Json, intent: str | None = None) -> PlanShop:
            said = json.dumps({"steps": steps})

            def complete(_: ChatRequest) -> Reply:
                return Reply(message=Message(role="assistant", content=said))

            shop = replace(opened, complete=complete)
            request = PlanRequest(prompt="do it", repo=str(repo), intent=intent, intent_from="a.md")
            begin(shop, "r1", request, draft_plan(shop, request))
            return shop

        yield begin_plan


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository that takes pushes, `origin.git` beside it."""
    bare = tmp_path / "origin.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    run_git(tmp_path, "clone", "--quiet", str(bare), str(tmp_path / "clone"))
    return tmp_path / "clone"


def go(shop: PlanShop, *steps: int) -> Sequence[Outcome]:
    """Do these steps as a process would that begins here."""
    with open_run(shop, "r1") as run:
        return [run.run_step(index) for index in steps]


def approve_all(shop: PlanShop) -> int:
    waiting = shop.approvals.list(run_id="r1", pending=True)
    for one in waiting:
        shop.approvals.decide(one.id, "approved", by="ann")
    return len(waiting)


def test_a_plan_works_where_it_was_agreed_to(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("notes", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"from {name}")
    monkeypatch.chdir(tmp_path / "notes")
    shop = begun(".", step("read_file", path="a.md"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    (read,) = go(shop, 0)
    assert read.entity is not None
    assert read.entity.content == "from notes"
