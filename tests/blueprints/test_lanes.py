"""Parallel lanes in the same files, and agents that compete in forks of the files."""

from collections.abc import Sequence

import pytest

from blueprints.dry_run import dry_run
from blueprints.dsl import agentic, blueprint, compete, deterministic, parallel, step, validate
from blueprints.engine import LaneHooks, NodeRunner, execute_blueprint, run_nodes
from contracts.errors import BlueprintInvalid, SandboxLost
from contracts.run import NodeResult, RunContext, RunReport
from contracts.sandbox import Command, PersistentSandbox, Sandbox
from nodes.commands import command, shell
from nodes.types import Agentic, Compete, CompeteEntry, Node
from sandbox.scripted import ScriptedSandbox
from tests.support.waiting import LONG_S

LINES = {"try-1": 5, "try-2": 2, "try-3": 1}
"""Number of lines that each agent writes. The third writes no answer, so it does not pass."""


def run(sandbox: ScriptedSandbox, *nodes: Node) -> RunReport:
    made = blueprint("lanes", "Lanes", nodes)
    ctx = RunContext(run_id="abcd1234", work_dir=sandbox.work_dir)
    return execute_blueprint(made, ctx, sandbox=sandbox, run_agent=agent_writes)


def agent_writes(node: Agentic, _: RunContext, sandbox: Sandbox) -> NodeResult:
    answer = "no" if node.name == "try-3" else "42"
    sandbox.write_file("answer.txt", f"{answer}\n".encode() * LINES[node.name])
    return NodeResult.success(node.name)


def waits_for(path: str, makes: str) -> Node:
    line = f"touch {makes}; until test -e {path}; do sleep 0.05; done"
    return deterministic(makes, makes, shell(line, timeout_s=LONG_S))


@pytest.fixture
def started(sandbox: ScriptedSandbox) -> ScriptedSandbox:
    """A workspace with one commit."""
    who = "git config user.email a@b && git config user.name a"
    line = f"git init -q . && {who} && echo x > start.txt && git add . && git commit -qm x"
    assert sandbox.exec(Command(argv=("sh", "-c", line))).ok
    return sandbox


def trying(**changes: object) -> Compete:
    steps = [step("answer", command("grep", "-q", "42", "answer.txt"))]
    made = compete("try", "Try it", 3, prompt=lambda _: "go", steps=steps)
    return Compete(**{**vars(made), **changes})


def test_lanes_run_at_the_same_time(sandbox: ScriptedSandbox) -> None:
    lanes = [[waits_for("b", makes="a")], [waits_for("a", makes="b")]]
    report = run(sandbox, parallel("both", "both", lanes))
    assert report.status == "success"
    assert {node.name: node.status for node in report.nodes} == {
        "both": "success", "a": "success", "b": "success"
    }  # fmt: skip


def test_a_failing_lane_stops_and_the_others_continue(sandbox: ScriptedSandbox) -> None:
    lanes = [
        [deterministic("bad", "bad", command("false")), deterministic("x", "x", command("true"))],
        [deterministic("good", "good", command("true"))],
    ]
    report = run(sandbox, parallel("both", "both", lanes))
    assert report.status == "failure"
    assert [(node.name, node.status) for node in report.nodes] == [
        ("both", "failure"), ("bad", "failure"), ("good", "success")
    ]  # fmt: skip
    assert report.nodes[0].error == "failed: bad"


def test_a_later_node_sees_the_results_of_lanes(sandbox: ScriptedSandbox) -> None:
    def look(ctx: RunContext, _: Sandbox) -> NodeResult:
        return NodeResult.success(ctx.results["said"].output)

    lanes = [[deterministic("said", "said", command("echo", "hello"))]]
    report = run(sandbox, parallel("one", "one", lanes), deterministic("look", "look", look))
    assert report.nodes[-1].output.strip() == "hello"


def test_an_exception_in_a_lane_ends_the_run(sandbox: ScriptedSandbox) -> None:
    def lost(_: RunContext, __: Sandbox) -> NodeResult:
        raise SandboxLost("gone")

    with pytest.raises(SandboxLost):
        run(sandbox, parallel("one", "one", [[deterministic("lost", "lost", lost)]]))


def test_the_smallest_change_that_passes_wins(started: ScriptedSandbox) -> None:
    report = run(started, trying())
    assert report.status == "success"
    assert started.read_file("answer.txt") == b"42\n42\n"
    assert report.nodes[0].output.splitlines() == [
        "try-1: passed, 5 lines changed",
        "try-2: passed, 2 lines changed (won)",
        "try-3: failed at try-3/answer, 1 lines changed",
    ]


@pytest.mark.parametrize(
    "hide",
    [
        "seq 9 > more.txt; mkdir -p .git/info; echo '* -diff' > .git/info/attributes",
        "seq 9 > more.txt; echo '* -diff' > .gitattributes",
        "git update-index --skip-worktree start.txt; seq 9 > start.txt",
        "rm -rf .git",
    ],
)
def test_no_agent_wins_by_hiding_what_it_changed(started: ScriptedSandbox, hide: str) -> None:
    def agent(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        if node.name == "try-2":
            assert sandbox.exec(Command(argv=("sh", "-c", hide))).ok
        return agent_writes(node, ctx, sandbox)

    ctx = RunContext(run_id="abcd1234", work_dir=started.work_dir)
    run_nodes([trying()], ctx, NodeRunner(started, agent))
    assert started.read_file("answer.txt") == b"42\n" * 5


def test_a_judge_may_choose_another(started: ScriptedSandbox) -> None:
    def largest(_: RunContext, entries: Sequence[CompeteEntry]) -> str:
        return max(entries, key=lambda entry: entry.lines).name

    run(started, trying(judge=largest))
    assert started.read_file("answer.txt") == b"42\n" * 5


def test_a_judge_that_names_no_passing_entry_changes_no_file(
    started: ScriptedSandbox,
) -> None:
    report = run(started, trying(judge=lambda _, __: "try-3"))
    assert report.error == (
        "node 'try' failed: the judge named 'try-3', which is none of those that passed: "
        "try-1, try-2"
    )
    assert not started.exec(Command(argv=("test", "-e", "answer.txt"))).ok


def test_if_no_entry_passes_no_file_changes(started: ScriptedSandbox) -> None:
    steps = (step("never", command("false")),)
    report = run(started, trying(steps=steps))
    assert report.error == "node 'try' failed: no entrant passed the steps"
    assert not started.exec(Command(argv=("test", "-e", "answer.txt"))).ok


def test_the_work_of_losing_entrants_is_saved(started: ScriptedSandbox) -> None:
    saved: dict[str, bytes] = {}

    def keep(name: str, fork: PersistentSandbox) -> None:
        saved[name] = fork.read_file("answer.txt")

    runner = NodeRunner(started, agent_writes, lane_hooks=LaneHooks(save_work=keep))
    ctx = RunContext(run_id="abcd1234", work_dir=started.work_dir)
    run_nodes([trying()], ctx, runner)
    assert saved == {"try-1": b"42\n" * 5, "try-3": b"no\n"}


def test_a_dry_run_shows_every_lane() -> None:
    fix = agentic("fix", "fix", prompt=lambda _: "fix it")
    check = validate("check", "check", steps=[step("s", command("true"))], on_failure=fix)
    planned = dry_run(blueprint("lanes", "Lanes", [parallel("p", "p", [[check]]), trying()]))
    assert [(node.name, node.type) for node in planned] == [
        ("p", "parallel"), ("check", "validate"), ("fix", "agentic"),
        ("try", "compete"), ("try-1", "agentic"), ("try-2", "agentic"), ("try-3", "agentic"),
    ]  # fmt: skip


def test_a_lane_in_a_dry_run_sees_earlier_results_only() -> None:
    def reads(name: str) -> Node:
        return agentic(f"reads-{name}", "reads", prompt=lambda ctx: ctx.results[name].output)

    first = deterministic("first", "first", command("true"))
    dry_run(blueprint("lanes", "Lanes", [parallel("p", "p", [[first, reads("first")]])]))
    dry_run(blueprint("lanes", "Lanes", [parallel("p", "p", [[first]]), reads("first")]))
    beside = parallel("p", "p", [[first], [reads("first")]])
    with pytest.raises(BlueprintInvalid, match="the prompt of node 'reads-first' fails"):
        dry_run(blueprint("lanes", "Lanes", [beside]))


def test_a_prompt_in_a_dry_run_sees_results_of_steps_and_entrants() -> None:
    fix = agentic("fix", "fix", prompt=lambda _: "fix it")
    check = validate("check", "check", steps=[step("s", command("true"))], on_failure=fix)
    names = ("check/s", "try-1", "try-1/answer")

    def prompt(ctx: RunContext) -> str:
        return ", ".join(ctx.results[name].output for name in names)

    says = agentic("says", "says", prompt=prompt)
    planned = dry_run(blueprint("lanes", "Lanes", [check, trying(), says]))
    assert planned[-1].prompt == ", ".join(f"[output of {name}]" for name in names)


def test_names_in_lanes_are_unique_in_the_blueprint() -> None:
    twice = deterministic("same", "same", command("true"))
    with pytest.raises(BlueprintInvalid, match="uses a node name twice: 'same'"):
        blueprint("lanes", "Lanes", [parallel("p", "p", [[twice], [twice]])])


@pytest.mark.parametrize("lanes", [[], [[]]])
def test_a_parallel_node_without_nodes_is_refused(lanes: list[list[Node]]) -> None:
    with pytest.raises(BlueprintInvalid, match=r"node 'p' has (lanes=|no lanes or an empty one)"):
        parallel("p", "p", lanes)


def test_a_compete_node_with_one_agent_is_refused() -> None:
    with pytest.raises(BlueprintInvalid, match="'c' has n=1: it must be a whole number, 2"):
        compete("c", "c", 1, prompt=lambda _: "go", steps=[step("s", command("true"))])
