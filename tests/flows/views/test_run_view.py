"""The view of a run: JSON with a schema, rendered as Markdown, Mermaid and terminal text."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types
from pydantic import ValidationError

from app.terminal.views import view_text
from contracts.json import Json
from flows.views.markdown import MAX_BOXES, MAX_ROWS, mermaid, view_markdown
from flows.views.run import run_view
from flows.views.spec import (
    Cause,
    Code,
    Graph,
    GraphNode,
    Link,
    Paragraph,
    Table,
    ViewSpec,
    link,
    view_schema,
)
from policy.log.events import Draft, History
from tests.support.policy import OpenLog, draft, entity

NASTY = '\x1b\u202e"><script>alert(1)</script> | `x` [click](javascript:alert(1)) ![i](http://x)'


@pytest.fixture
def history(open_log: OpenLog) -> History:
    """A prompt and a page become a draft; a mail of it is denied; something else is clean."""
    log = open_log()
    request, page = entity("mail the notes"), entity("a page", "web:evil")
    text, clean = entity("draft", "web:evil"), entity("clean")
    question: Json = {"call": {"name": NASTY}}
    body: dict[str, Json] = {
        "verdict": "denied",
        "rule": "C4",
        "reason": NASTY,
        "question": question,
    }
    log.append([draft(request, kind="prompt"), draft(page, kind="source")])
    log.append([draft(text, of=(request, page)), draft(clean, of=(request,))])
    log.append([Draft(kind="decision", run_id="run1", body=body, consumes=(text.id, request.id))])
    log.append([draft(entity("other run"), run_id="run2")])
    return log.history()


def graph(history: History) -> Graph:
    (found,) = [part for part in run_view(history, "run1").parts if isinstance(part, Graph)]
    return found


def test_the_graph_has_a_node_for_each_event_and_marks_taint(history: History) -> None:
    drawn = graph(history)
    by_kind = [(node.text.split(" ·")[0], node.tainted, node.denied) for node in drawn.nodes]
    assert by_kind == [
        ("prompt", False, False),
        ("source", True, False),
        ("node", True, False),
        ("node", False, False),
        ("decision", True, True),
    ]
    assert [
        (node.number, tuple((one.number, one.tainted) for one in node.causes))
        for node in drawn.nodes
    ] == [
        (1, ()),
        (2, ()),
        (3, ((1, False), (2, True))),
        (4, ((1, False),)),
        (5, ((3, True),)),
    ]


def test_a_page_shows_decisions_and_is_deterministic(history: History) -> None:
    view = run_view(history, "run1")
    assert run_view(history, "run1") == view
    tables = [part for part in view.parts if isinstance(part, Table)]
    assert tables[0].rows[0][2:4] == ("denied", "C4")


def test_a_flowchart_marks_tainted_edges_and_boxes(history: History) -> None:
    lines = [line.strip() for line in mermaid(graph(history)).splitlines()]
    edges = [line for line in lines if re.fullmatch(r"n\d (-->|==>) n\d", line)]
    assert edges == ["n1 --> n3", "n2 ==> n3", "n1 --> n4", "n3 ==> n5"]
    assert "linkStyle 1,3 stroke:#dc2626" in lines
    assert "class n2,n3,n5 tainted" in lines
    assert "class n5 denied" in lines


def test_text_of_events_is_inert_in_a_flowchart(history: History) -> None:
    labels = re.findall(r'^  n\d+\["(.*)"\]$', mermaid(graph(history)), re.MULTILINE)
    assert len(labels) == 5
    assert not [one for one in labels if re.search(r"[^\w .,/·…#;-]", one)]
    assert any("#60;script#62;" in one for one in labels)


def test_the_node_of_a_step_decision_names_the_operation(open_log: OpenLog) -> None:
    log = open_log()
    question: Json = {"operation": {"name": "send_email"}, "index": 1}
    log.append([Draft(kind="decision", run_id="run1", body={"question": question, "step": 1})])
    assert [node.text for node in graph(log.history()).nodes] == ["decision · send_email"]


def a_chain(length: int, text: str) -> Graph:
    causes: tuple[tuple[Cause, ...], ...] = (
        (),
        *((Cause(number=n, tainted=True),) for n in range(1, length)),
    )
    nodes = tuple(
        GraphNode(number=n, text=text, tainted=False, causes=before)
        for n, before in enumerate(causes, 1)
    )
    return Graph(title="Data flow", nodes=nodes)


def test_a_large_graph_is_cut_with_a_note() -> None:
    drawn = mermaid(a_chain(1_000, "node"))
    assert drawn.count('["node"]') == MAX_BOXES
    assert f'more["{1_000 - MAX_BOXES} more events are not drawn"]' in drawn
    page = view_markdown(ViewSpec(title="Run", parts=(a_chain(1_000, "node"),)))
    assert page.count(" node ") == MAX_ROWS
    assert f"The first {MAX_ROWS} of 1000 events; `harness runs events` prints all." in page


def test_long_labels_stay_within_the_limits_of_mermaid() -> None:
    drawn = mermaid(a_chain(1_000, "\U0001f4a3" * 100))
    assert len(drawn) < 50_000
    assert "more events are not drawn" in drawn


def test_text_of_events_is_inert_in_markdown(history: History) -> None:
    text = view_markdown(run_view(history, "run1"))
    assert "<script>" not in text
    assert re.findall(r"(?<!\\)\]\((.*?)\)", text) == []
    rows = [line for line in text.splitlines() if "denied" in line and line.startswith("|")]
    assert [row.replace("\\|", "").count("|") for row in rows] == [5, 6]


def test_a_run_without_events_has_a_page() -> None:
    view = run_view(History(), "none")
    assert "Nothing is tainted" in view_markdown(view)
    assert isinstance(view, ViewSpec)
    assert isinstance(view.parts[0], Paragraph)
    (drawn,) = [part for part in view.parts if isinstance(part, Graph)]
    assert drawn.nodes == ()


def test_the_published_schema_describes_a_view_as_it_is_sent(history: History) -> None:
    published = json.loads(Path("docs/reference/viewspec.schema.json").read_text())
    assert published == view_schema()
    Draft202012Validator.check_schema(published)
    sent = json.loads(run_view(history, "run1").model_dump_json())
    assert not list(Draft202012Validator(published).iter_errors(sent))
    sent["parts"][0]["script"] = "alert(1)"
    assert list(Draft202012Validator(published).iter_errors(sent))


def test_a_terminal_renders_a_view_from_its_json(history: History) -> None:
    sent = run_view(history, "run1").model_dump_json()
    shown = view_text(ViewSpec.model_validate_json(sent))
    assert "Untrusted content came from web:evil." in shown
    assert re.search(r"^  3 +node .* 1, 2 \(tainted\) +tainted$", shown, re.MULTILINE)


def test_no_renderer_gets_characters_that_nobody_sees(history: History) -> None:
    view = run_view(history, "run1")
    for text in (view.model_dump_json(), view_text(view), view_markdown(view)):
        assert not {"\x1b", "\u202e"} & set(text)


@pytest.mark.parametrize("href", [
    "javascript:alert(1)", "data:text/html,x", "//evil.example", "/\\evil.example", "https://", "x",
    "/plans/a b", "https://a\nb",
])  # fmt: skip
def test_a_view_holds_no_link_to_a_script_or_another_server_in_disguise(href: str) -> None:
    with pytest.raises(ValidationError):
        Link(text="x", href=href)
    assert link("x", href) == "x"


def test_code_keeps_its_lines_and_holds_in_markdown() -> None:
    view = ViewSpec(title="Plan", parts=(Code(title="Prompt", text="a\n```\n<b>"),))
    assert "````\na\n```\n<b>\n````" in view_markdown(view)
    assert "  a\n  ```\n  <b>\n" in view_text(view)
