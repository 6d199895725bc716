"""The page of a run: its tables, its graph, Markdown and Mermaid."""

import re

import pytest

from contracts.json import Json
from policy.log.events import Draft, History
from policy.log.view import (
    MAX_BOXES,
    MAX_ROWS,
    Cause,
    Graph,
    GraphNode,
    Paragraph,
    ViewSpec,
    ViewTable,
    mermaid,
    view_markdown,
)
from policy.log.views import run_view
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
    assert [(node.number, node.causes) for node in drawn.nodes] == [
        (1, ()),
        (2, ()),
        (3, ((1, False), (2, True))),
        (4, ((1, False),)),
        (5, ((3, True),)),
    ]


def test_a_page_shows_decisions_and_is_deterministic(history: History) -> None:
    view = run_view(history, "run1")
    assert run_view(history, "run1") == view
    tables = [part for part in view.parts if isinstance(part, ViewTable)]
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
    causes: tuple[tuple[Cause, ...], ...] = ((), *((Cause(n, True),) for n in range(1, length)))
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
