"""Every built-in operation: its decisions for each parameter, and its effect."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from contracts.entity import EMPTY_LABEL, Entity, Label
from contracts.json import Json
from contracts.sandbox import Command
from contracts.tool import Allowed, Denied
from policy.authority import Authority, FileLabels, matches_any
from policy.log.events import Draft
from policy.plan.executor import PlanRun
from policy.plan.operations import Attachment, Mail
from policy.plan.plan_json import check_plan
from policy.plan.plan_log import PlanLog
from policy.plan.registry import Operation, Registry
from policy.plan.resolve import PolicyContext, StepCall
from policy.plan.step_check import check_step
from policy.types import NO_APPROVER, Approver, Plan, PlanStep, Role
from sandbox.scripted import ScriptedSandbox
from tests.support.desk import Clerk
from tests.support.ready_calls import LABELS, Noted, ready_registry
from tests.support.worlds import AUTHORITY, FOR_BOB, UNTRUSTED, plan

SHAPES = ready_registry(ScriptedSandbox(), Noted())
GRANTED = replace(AUTHORITY, grants=frozenset(cap for one in SHAPES for cap in one.requires))
CASES = [(one, name, role) for one in SHAPES for name, role in one.roles.items()]
STEERING = ("authority", "recipient")


@pytest.fixture
def sandbox() -> Iterator[ScriptedSandbox]:
    made = ScriptedSandbox()
    yield made
    made.teardown()


def call(
    operation: Operation, *, tainted: str = "", data_caps: frozenset[str] = frozenset()
) -> StepCall:
    args: dict[str, Json] = dict.fromkeys(operation.roles, "bob@example.com")
    if tainted:
        args[tainted] = {"$ref": "input.web"}
    step = PlanStep(op=operation.name, args=args, tool_caps=operation.requires, data_caps=data_caps)
    return StepCall(plan=Plan(steps=(step,), prompt="p"), index=0)


def around(
    made: StepCall, label: Label = UNTRUSTED, authority: Authority = GRANTED
) -> PolicyContext:
    web = Entity(content="bob@example.com", label=label, origin="web")
    place = Entity(content="files", label=EMPTY_LABEL, origin="workspace")
    return PolicyContext(
        registry=SHAPES,
        authority=authority,
        plan=made.plan.id,
        values={"input.web": web, "place.workspace": place},
    )


@pytest.mark.parametrize(("operation", "name", "role"), CASES, ids=lambda x: getattr(x, "name", x))
def test_the_role_of_a_parameter_decides_about_untrusted_values(
    operation: Operation, name: str, role: Role
) -> None:
    made = call(operation, tainted=name)
    assert check_step(made, around(made, EMPTY_LABEL)) == Allowed()
    decision = check_step(made, around(made))
    if role in STEERING:
        assert isinstance(decision, Denied)
        assert (decision.rule, decision.argument) == ("C4", f"/{name}")
    else:
        assert decision == Allowed()


@pytest.mark.parametrize("operation", list(SHAPES), ids=lambda one: one.name)
def test_each_operation_needs_its_capabilities(operation: Operation) -> None:
    made = call(operation)
    assert check_step(made, around(made)) == Allowed()
    poor = replace(GRANTED, grants=GRANTED.grants - operation.requires)
    decision = check_step(made, around(made, authority=poor))
    assert isinstance(decision, Denied)
    assert decision.rule == "C1"


@pytest.mark.parametrize("operation", list(SHAPES), ids=lambda one: one.name)
def test_restricted_data_goes_only_to_permitted_recipients(operation: Operation) -> None:
    content = next((n for n, role in operation.roles.items() if role != "recipient"), "")
    made = call(operation, tainted=content, data_caps=FOR_BOB.caps)
    decision = check_step(made, around(made, FOR_BOB))
    stays = operation.effect != "egress"
    bob = "recipient" in operation.roles.values()
    assert (decision == Allowed()) == (stays or bob)
    ann = replace(GRANTED, principals={"bob": frozenset({"other@example.com"})})
    decision = check_step(made, around(made, FOR_BOB, ann))
    assert (decision == Allowed()) == stays


def run(
    text: str,
    registry: Registry,
    authority: Authority = GRANTED,
    label: Label = UNTRUSTED,
    approver: Approver = NO_APPROVER,
) -> PlanRun:
    agreed = plan(text)
    assert check_plan(agreed, registry, authority) == Allowed()
    place = Entity(content="files", label=label, origin="workspace")
    drafts: list[Draft] = []
    made = PlanRun(
        agreed,
        registry,
        authority,
        values={"place.workspace": place},
        log=PlanLog("r1", drafts.append),
        approver=approver,
    )
    for index in range(len(agreed.steps)):
        made.run_step(index)
    return made


def one(op: str, **args: Json) -> str:
    requires = next(o.requires for o in SHAPES if o.name == op)
    return json.dumps([{"op": op, "args": args, "tool_caps": sorted(requires)}])


def result(run: PlanRun, index: int = 0) -> Json:
    outcome = run.outcomes[index]
    assert outcome.entity is not None, outcome
    return outcome.entity.content


def test_files_are_read_written_and_searched(sandbox: ScriptedSandbox) -> None:
    registry = ready_registry(sandbox, Noted())
    sandbox.write_file("notes/q2.md", b"Q2 OKRs\nup by a third\n")
    assert result(run(one("read_file", path="notes/q2.md"), registry)) == "Q2 OKRs\nup by a third\n"
    found = result(run(one("search_code", text="okrs"), registry))
    assert found == ({"path": "notes/q2.md", "line": "1", "text": "Q2 OKRs"},)
    run(one("write_file", path="a/b.txt", text="hello"), registry)
    assert sandbox.read_file("a/b.txt") == b"hello"


CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:Q2 review
DTSTART;TZID=Europe/Berlin:20250520T100000
DESCRIPTION:The OKRs\\, one by o
 ne\\nthen lunch
END:VEVENT
BEGIN:VEVENT
SUMMARY:Lunch
END:VEVENT
END:VCALENDAR
"""


def test_meeting_notes_are_found_in_notes_and_in_a_calendar(sandbox: ScriptedSandbox) -> None:
    sandbox.write_file("notes/q2.md", b"OKRs: up by a third\n")
    sandbox.write_file("notes/q3.md", b"Q3 only\n")
    sandbox.write_file("code.py", b"# Q2 OKRs\n")
    sandbox.write_file("team.ics", CALENDAR.encode())
    found = result(
        run(one("fetch_meeting_notes", topic="Q2 okrs"), ready_registry(sandbox, Noted()))
    )
    assert found == (
        {"file": "notes/q2.md", "title": "q2", "text": "OKRs: up by a third\n"},
        {"file": "team.ics", "title": "Q2 review", "start": "20250520T100000",
         "text": "The OKRs, one by one\nthen lunch"},
    )  # fmt: skip


def test_each_meeting_note_has_the_tags_of_its_file(sandbox: ScriptedSandbox) -> None:
    sandbox.write_file("hr/okrs.md", b"pay")
    sandbox.write_file("okrs.md", b"goals")
    steps = json.loads(one("fetch_meeting_notes", topic="okrs"))
    made = run(json.dumps([{**steps[0], "data_caps": ["share_with:bob"]}]),
               ready_registry(sandbox, Noted(), labels=LABELS))  # fmt: skip
    values = made.context().values
    labels = [item.label.caps for n in (0, 1) if isinstance(item := values[f"step0/{n}"], Entity)]
    assert labels == [FOR_BOB.caps, frozenset()]


def test_no_meeting_notes_on_a_topic_is_a_failed_step(sandbox: ScriptedSandbox) -> None:
    outcome = run(
        one("fetch_meeting_notes", topic="Q2"), ready_registry(sandbox, Noted())
    ).outcomes[0]
    assert (outcome.status, "no notes on 'Q2'" in outcome.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", [Attachment(name="attachment.txt", text="text")]),
        ({"k": 1}, [Attachment(name="attachment.json", text='{\n "k": 1\n}')]),
        ([{"file": "a/../q2.md", "text": "x"}], [Attachment(name="q2.md", text="x")]),
        ([{"file": "c.ics", "title": "Q2\n", "text": "x"}], [Attachment(name="Q2_.txt", text="x")]),
    ],
)
def test_a_result_becomes_attachments(
    sandbox: ScriptedSandbox, value: Json, expected: list[Attachment]
) -> None:
    actions = Noted()
    step = one("send_email", to="a@example.org", subject="s", attachment_ref=value)
    run(step, ready_registry(sandbox, actions))
    assert list(actions.mails[0].attachments) == expected


@pytest.mark.parametrize(
    ("op", "args", "found"),
    [
        ("send_email", {"to": "a@b.c\nx", "subject": "s"}, "'a@b.c\\nx' is not one plain address"),
        ("send_email", {"to": ["a@b.c,d@e.f"], "subject": "s"}, "is not one plain address"),
        ("send_email", {"to": "a@b.c", "subject": "s\nBcc: d@e.f"}, "is not one line"),
        ("http_fetch", {"url": "file:///etc/passwd"}, "is not a URL of a web page"),
    ],
)
def test_arguments_are_checked_before_anybody_is_asked(
    sandbox: ScriptedSandbox, op: str, args: dict[str, Json], found: str
) -> None:
    registry = ready_registry(sandbox, Noted())
    poor = replace(GRANTED, grants=frozenset())
    clerk = Clerk("approved")
    outcome = run(one(op, **args), registry, poor, approver=clerk.person).outcomes[0]
    assert (outcome.status, clerk.asked) == ("failed", [])
    assert found in outcome.reason


def test_a_missing_file_is_a_failed_step(sandbox: ScriptedSandbox) -> None:
    outcome = run(one("read_file", path="nope"), ready_registry(sandbox, Noted())).outcomes[0]
    assert outcome.status == "failed"
    assert "nope" in outcome.reason


def test_a_failing_command_is_a_result(sandbox: ScriptedSandbox) -> None:
    registry = ready_registry(sandbox, Noted())
    found = result(run(one("run_command", command="echo hm; exit 3"), registry))
    assert found == {"exit_code": 3, "output": "hm"}


def test_git_commit_commits_all_changes(sandbox: ScriptedSandbox) -> None:
    registry = ready_registry(sandbox, Noted())
    steps = [
        *json.loads(one("run_command", command="git init -q . && git config user.email a@b.c "
                        "&& git config user.name A && echo x > f")),
        {**json.loads(one("git_commit", message="Add f"))[0], "deps": [0]},
        {**json.loads(one("run_command", command="git log --format=%s"))[0], "deps": [1]},
    ]  # fmt: skip
    assert result(run(json.dumps(steps), registry), 2) == {"exit_code": 0, "output": "Add f"}


def test_model_operations_return_text_and_fields(sandbox: ScriptedSandbox) -> None:
    registry = ready_registry(sandbox, Noted(), ["shorter", '{"name": "Bob", "more": 1}'])
    assert result(run(one("summarise", text="long"), registry)) == "shorter"
    fields = result(run(one("extract", text="x", fields=["name", "city"]), registry))
    assert fields == {"name": "Bob", "city": ""}


@pytest.mark.parametrize("said", ["", "no JSON", "[1]", '{"a": NaN}', "[" * 900 + "]" * 900])
def test_an_invalid_reply_of_a_model_fails_the_step(sandbox: ScriptedSandbox, said: str) -> None:
    registry = ready_registry(sandbox, Noted(), [said])
    assert run(one("extract", text="x", fields=["a"]), registry).outcomes[0].status == "failed"


def test_operations_outside_get_the_arguments_of_the_plan(sandbox: ScriptedSandbox) -> None:
    actions = Noted()
    registry = ready_registry(sandbox, actions)
    run(one("send_email", to=["a@example.org"], subject="s", body={"k": 1}), registry)
    run(one("git_push", remote="origin", branch="work"), registry)
    run(one("run_blueprint", blueprint="review", intent="look"), registry)
    assert actions.mails == [Mail(to=("a@example.org",), subject="s", body='{\n "k": 1\n}')]
    assert (actions.pushes, actions.runs) == ([("origin", "work")], [("review", "look")])


def test_the_answer_of_a_person_is_trusted(sandbox: ScriptedSandbox) -> None:
    actions = Noted()
    registry = ready_registry(sandbox, actions)
    steps = [
        json.loads(one("read_file", path="q"))[0],
        {**json.loads(one("ask_person", question="x"))[0], "deps": [0],
         "args": {"question": {"$ref": "step0.result"}}},
        {**json.loads(one("send_email", to="x", subject="s", body="b"))[0], "deps": [1],
         "args": {"to": {"$ref": "step1.result"}, "subject": "s", "body": "b"}},
    ]  # fmt: skip
    sandbox.write_file("q", b"who?")
    made = run(json.dumps(steps), registry)
    assert made.outcomes[2].status == "done", made.outcomes
    assert actions.mails[0].to == ("ann@example.com",)


def test_a_file_read_through_a_link_has_the_tags_of_its_target(sandbox: ScriptedSandbox) -> None:
    registry = ready_registry(sandbox, Noted(), labels=LABELS)
    sandbox.write_file("hr/pay.md", b"secret")
    sandbox.exec(Command(argv=("ln", "-s", "hr/pay.md", "plain.md")))
    for path in ("hr/pay.md", "plain.md", "./hr/../hr/pay.md"):
        outcome = run(one("read_file", path=path), registry).outcomes[0]
        assert outcome.denied is not None, path
        assert outcome.denied.tags == FOR_BOB.caps


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("run_command", {"command": "true"}),
        ("run_blueprint", {"blueprint": "review", "intent": "say what hr/pay.md holds"}),
    ],
)
def test_a_command_gives_the_workspace_the_tags_of_all_files(
    sandbox: ScriptedSandbox, op: str, args: dict[str, Json]
) -> None:
    registry = ready_registry(sandbox, Noted(), labels=LABELS)
    caps = ["secret:key", "share_with:bob"]
    step = json.loads(one(op, **args))[0]
    follows = json.loads(one("read_file", path="a"))[0]
    sandbox.write_file("a", b"")
    made = run(json.dumps([{**step, "data_caps": caps}, {**follows, "deps": [0]}]), registry)
    assert made.outcomes[0].entity is not None
    assert made.outcomes[0].entity.label.caps == set(caps)
    assert made.outcomes[1].denied is not None
    assert made.outcomes[1].denied.tags == set(caps)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("hr/**", "hr/a/b.md", True),
        ("hr/**", "other/hr/a", False),
        ("**/hr/*", "x/hr/a", True),
        ("**/hr/*", "hr/a", True),
        ("*.pem", "deep/KEY.PEM", True),
        ("*.pem", "pem", False),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
    ],
)
def test_file_patterns_match_paths(pattern: str, path: str, expected: bool) -> None:
    assert matches_any([pattern], path) == expected
    assert (
        bool(FileLabels(caps={pattern: frozenset({"x"})}).label_for(f"./{path}").caps) == expected
    )
