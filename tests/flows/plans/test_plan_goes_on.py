"""A plan resumed by another process, later or elsewhere, continues with the same files."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.errors import SandboxLost
from contracts.json import Json
from contracts.sandbox import SnapshotId
from flows.audit.policies import POLICIES
from flows.config.policy import PolicySettings
from flows.config.settings import load_settings
from flows.execution.dependencies import OpenedSandbox
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import plan_folder
from flows.plans.request import PlanRequest
from flows.plans.run import (
    PlanDependencies,
    draft_plan,
    open_plan_run,
    plan_report,
    record_agreed_plan,
)
from flows.plans.state import plan_state
from policy.log.replay import replay
from policy.plan.plan_log import StepOutcome
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import commit_files, make_repo, run_git

ORIGIN = {"origin": frozenset({"origin"})}


def step(op: str, *deps: int, **args: Json) -> Json:
    return {"op": op, "args": args, "tool_caps": [op.upper()], "deps": deps}


PUSH = step("git_push", 0, remote="origin", branch="work")


@contextmanager
def scripted_sandbox(checkpoint: SnapshotId | None) -> Iterator[OpenedSandbox]:
    made = ScriptedSandbox() if checkpoint is None else ScriptedSandbox.resume(checkpoint)
    with made as sandbox:
        yield OpenedSandbox(sandbox, {})


Begun = Callable[..., PlanDependencies]


@pytest.fixture
def begun(own_store: Path) -> Iterator[Begun]:
    """Has a plan of these steps agreed to, as run r1."""
    policy = PolicySettings(principals=ORIGIN)
    with plan_dependencies(
        load_settings(), policy=policy, open_sandbox=lambda _: scripted_sandbox
    ) as opened:

        def begin_plan(
            repo: str | Path, *steps: Json, intent: str | None = None
        ) -> PlanDependencies:
            said = json.dumps({"steps": steps})

            def complete(_: ChatRequest) -> Reply:
                return Reply(message=Message(role="assistant", content=said))

            shop = replace(opened, complete=complete)
            request = PlanRequest(prompt="do it", repo=str(repo), intent=intent, intent_from="a.md")
            record_agreed_plan(shop, "r1", request, draft_plan(shop, request))
            return shop

        yield begin_plan


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository that takes pushes, `origin.git` beside it."""
    bare = tmp_path / "origin.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(make_repo(tmp_path / "first")), str(bare))
    run_git(tmp_path, "clone", "--quiet", str(bare), str(tmp_path / "clone"))
    return tmp_path / "clone"


def go(shop: PlanDependencies, *steps: int) -> Sequence[StepOutcome]:
    """Do these steps as a process would that begins here."""
    with open_plan_run(shop, "r1") as run:
        return [run.run_step(index) for index in steps]


def approve_all(shop: PlanDependencies) -> int:
    waiting = shop.approvals.list(run_id="r1", pending=True)
    for one in waiting:
        shop.approvals.decide(one.id, "approved", by="ann")
    return len(waiting)


def test_a_resumed_plan_uses_the_folder_it_was_agreed_for(
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


WRITES = (
    step("write_file", path="one.txt", text="1"),
    step("write_file", 0, path="two.txt", text="2"),
)


class Killed(BaseException):
    """The process ends here."""


def test_files_of_finished_steps_survive_a_killed_process(begun: Begun, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    shop = begun(tmp_path / "notes", *WRITES, step("run_command", 1, command="ls"))
    for written in (0, 1):
        with pytest.raises(Killed), open_plan_run(shop, "r1") as run:
            assert run.run_step(written).status == "done"
            raise Killed
    *_, listed = go(shop, 0, 1, 2)
    assert listed.entity is not None
    assert listed.entity.content == {"exit_code": 0, "output": "one.txt\ntwo.txt"}
    assert plan_report(shop, "r1").status == "success"


def test_only_the_newest_snapshot_is_kept_and_none_of_a_finished_plan(
    begun: Begun, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    made = begun(tmp_path / "notes", *WRITES)
    told: list[Collection[SnapshotId]] = []
    shop = replace(made, delete_snapshots=lambda _, but: told.append(but))
    go(shop, 0)
    go(shop, 0, 1)
    noted = [event.body["checkpoint"] for event in shop.log.events("r1", kind="snapshot")]
    assert told == [(noted[0],), (noted[1],), ()]


def test_a_snapshot_is_kept_as_long_as_the_approval_is_pending(
    begun: Begun, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = begun(clone, step("write_file", path="b.txt", text="b"), PUSH)

    def kept() -> int:
        assert go(shop, 0, 1)[1].status == "waiting"
        return len(shop.log.events("r1", kind="snapshot"))

    first = kept()
    assert kept() == first
    monkeypatch.setattr("flows.plans.workspace.RENEW_AFTER", timedelta(0))
    assert kept() == first + 1
    approve_all(shop)
    assert [one.status for one in go(shop, 0, 1)] == ["done", "done"]


class FullDisk(ScriptedSandbox):
    """Where commands run, and no files can be kept."""

    def checkpoint(self, ttl_s: float, *, name: str = "") -> SnapshotId:
        raise SandboxLost(f"no space left on device to keep them for {ttl_s:g} s")


def test_a_step_whose_files_cannot_be_saved_is_not_repeated(begun: Begun, tmp_path: Path) -> None:
    @contextmanager
    def full(_: SnapshotId | None) -> Iterator[OpenedSandbox]:
        with FullDisk() as sandbox:
            yield OpenedSandbox(sandbox, {})

    (tmp_path / "notes").mkdir()
    times = tmp_path / "times"
    counts: Json = {
        "op": "run_command",
        "args": {"command": f"echo once >> {times}"},
        "tool_caps": ["RUN_COMMAND"],
        "deps": [],
        "retry": 3,
    }
    made = begun(tmp_path / "notes", counts)
    (ran,) = go(replace(made, open_sandbox=lambda _: full), 0)
    assert (ran.status, times.read_text()) == ("failed", "once\n")
    assert ran.reason.startswith(
        "the step was done, but its files could not be saved: no space left"
    )


def test_a_plan_ended_by_a_reboot_is_lost_and_one_of_another_container_is_not(
    begun: Begun, tmp_path: Path
) -> None:
    shop = begun(tmp_path, *WRITES)
    with open_plan_run(shop, "r1"):
        (plan_folder(shop.log) / "r1.process").write_text("another/4:12:345")
        assert plan_state(shop, "r1").report.status == "running"
    assert plan_state(shop, "r1").report.status == "lost"


def test_an_approved_push_works_after_the_user_committed(begun: Begun, clone: Path) -> None:
    shop = begun(clone, step("write_file", path="b.txt", text="b"), PUSH)
    assert [one.status for one in go(shop, 0, 1)] == ["done", "waiting"]
    before = run_git(clone, "rev-parse", "HEAD")
    commit_files(clone, {"c.txt": b"c"})
    assert approve_all(shop) == 1
    _, pushed = go(shop, 0, 1)
    assert pushed.reason == ""
    assert run_git(clone, "show", "origin/work:b.txt") == "b"
    assert run_git(clone, "rev-parse", "origin/work~1") == before


def test_an_approved_step_is_done_after_the_files_became_untrusted(
    begun: Begun, clone: Path
) -> None:
    text: Json = {"$ref": "input.intent"}
    shop = begun(clone, step("write_file", path="b.txt", text=text), PUSH, intent="not mine")
    assert go(shop, 0, 1)[1].status == "waiting"
    assert approve_all(shop) == 1
    _, pushed = go(shop, 0, 1)
    assert (pushed.status, pushed.reason) == ("done", "")
    assert pushed.entity is not None
    assert pushed.entity.label.taint == {"repo:clone", "intent:a.md"}


CI = ".github/workflows/x.yml"


@pytest.mark.parametrize(
    ("trusted", "text", "pushed"),
    [(True, "on: push", True), (True, {"$ref": "input.intent"}, False), (False, "on: push", False)],
)
def test_your_own_workspace_may_push_changes_to_ci_until_something_untrusted_is_in_it(
    begun: Begun, clone: Path, trusted: bool, text: Json, pushed: bool
) -> None:
    policy = PolicySettings(trust_workspace=trusted)
    shop = begun(clone, step("write_file", path=CI, text=text), PUSH, intent="on: push")
    assert go(replace(shop, policy=policy), 0, 1)[0].status == "done"
    approve_all(shop)
    _, push = go(replace(shop, policy=policy), 0, 1)
    assert push.status == ("done" if pushed else "failed"), push.reason
    assert (run_git(clone, "branch", "--remotes", "--list", "origin/work") != "") == pushed


def test_the_answer_of_a_person_is_trusted_also_in_a_replay(begun: Begun, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("who is to have it?")
    asks = step("ask_person", 0, question={"$ref": "step0.result"})
    shop = replace(
        begun(tmp_path, step("read_file", path="a.md"), asks), ask_person=lambda _: "ann"
    )
    read, said = go(shop, 0, 1)
    assert read.entity is not None
    assert said.entity is not None
    assert (bool(read.entity.label.taint), said.entity.label.taint) == (True, frozenset())
    assert replay(shop.log.history("r1"), POLICIES).differences == ()
