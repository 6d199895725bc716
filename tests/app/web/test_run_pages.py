import json
from pathlib import Path

import pytest
from sqlalchemy import Table, update
from starlette.testclient import TestClient

from contracts.json import Json
from flows.execution.wiring import open_event_log
from flows.views import spec
from memory.playbooks.library import Library
from memory.types import PlaybookContent
from nodes.text import quote_untrusted
from policy.database import entities, events
from policy.log.events import Draft
from tests.support.policy import disarm, entity
from tests.support.web import a_run

HOSTILE = "<img src=x onerror=alert(1)>"


def test_runs_are_found_by_text_and_state(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111", intent="make tea")
    a_run(own_home / "runs", "bbbb2222", intent="make coffee")
    assert "bbbb2222" not in client.get("/runs", params={"text": "tea"}).text
    assert "aaaa1111" not in client.get("/runs", params={"state": "failure"}).text


def test_a_run_for_an_issue_is_listed_by_the_issues_first_line(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    intent = f"Do what issue 7 asks for.\n\n{quote_untrusted('It fails', 'issue 7')}"
    a_run(own_home / "runs", "aaaa1111", intent=intent)
    assert "<td>Do what issue 7 asks for: It fails</td>" in client.get("/runs").text
    page = client.get("/runs/aaaa1111").text
    assert '<p class="intent">Do what issue 7 asks for: It fails</p>' in page
    assert "| It fails</pre>" in page


def test_a_run_shows_its_nodes_diff_and_what_memory_showed(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    made = opened.create(PlaybookContent(title="Mend things"))
    a_run(own_home / "runs", "aaaa1111", shown=made.id)
    text = client.get("/runs/aaaa1111").text
    assert "it is mended" in text
    assert '<span class="added">+new line</span>' in text
    assert f'href="/playbooks/{made.id}"' in text


def test_a_long_diff_says_how_much_of_it_is_shown(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    (own_home / "runs" / "aaaa1111" / "diff.patch").write_text("+line\n" * 5000)
    text = client.get("/runs/aaaa1111").text
    assert "The first 4,000 of 5,000 lines; <code>harness runs diff aaaa1111" in text


def test_half_a_letter_of_a_model_takes_no_page_away(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    said = {"kind": "reply", "node": "fix", "message": {"content": "half \ud83d of it"}}
    (own_home / "runs" / "aaaa1111" / "trajectory.jsonl").write_text(json.dumps(said))
    answer = client.get("/runs/aaaa1111")
    assert (answer.status_code, "half  of it" in answer.text) == (200, True)


def test_a_good_rating_says_that_the_run_qualifies_for_curation(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    assert "qualifies the run" not in client.post("/runs/aaaa1111/rate", data={"score": 80}).text
    text = client.post("/runs/aaaa1111/rate", data={"score": 81}).text
    assert "qualifies the run for curation" in text
    assert 'value="81"' in text
    assert client.post("/runs/aaaa1111/rate", data={"score": 101}).status_code == 400


def test_a_run_whose_report_is_damaged_is_shown_and_rated_all_the_same(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    (own_home / "runs" / "aaaa1111" / "report.json").write_text("{")
    assert client.get("/runs/aaaa1111").status_code == 200
    assert client.post("/runs/aaaa1111/rate", data={"score": 81}).status_code == 200


def test_the_page_of_a_dead_run_says_so(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    (own_home / "runs" / "aaaa1111" / "report.json").unlink()
    assert "it is running" in client.get("/runs/aaaa1111").text


def test_a_run_shows_its_pull_request_and_what_was_decided(
    client: TestClient, opened: Library, own_home: Path
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    body: dict[str, Json] = {"verdict": "denied", "rule": "C4", "reason": HOSTILE, "node": "fix"}
    with open_event_log() as log:
        log.append([Draft(kind="decision", run_id="aaaa1111", body=body)])
    assert 'href="https://forge.example/shop/pulls/7"' in client.get("/runs/aaaa1111").text
    shown = spec.ViewSpec.model_validate(client.get("/views/runs/aaaa1111").json())
    (decisions,) = [p for p in shown.parts if isinstance(p, spec.Table) and p.title == "Decisions"]
    assert decisions.rows == (("fix", "", "denied", "C4", HOSTILE),)


@pytest.mark.parametrize("table", [events, entities])
def test_a_damaged_event_log_takes_no_page_away(
    client: TestClient, opened: Library, own_home: Path, table: Table
) -> None:
    a_run(own_home / "runs", "aaaa1111")
    with open_event_log() as log:
        log.append([Draft(kind="prompt", run_id="aaaa1111", produces=(entity("asked"),))])
        with log.engine.begin() as connection:
            disarm(connection)
            connection.execute(update(table).values(line="{"))
    assert "+new line" in client.get("/runs/aaaa1111").text
    answer = client.get("/views/runs/aaaa1111")
    assert "damaged line: '{'" in answer.json()["error"]


def test_hostile_text_is_shown_as_text(client: TestClient, opened: Library, own_home: Path) -> None:
    a_run(own_home / "runs", "aaaa1111", intent=HOSTILE)
    for path in ("/", "/runs", "/runs/aaaa1111"):
        assert "<img src=x" not in client.get(path).text


def test_hostile_findings_are_shown_as_text(
    client: TestClient,
    opened: Library,
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"type": "Context", "scope": "global", "text": HOSTILE, "confidence": 50}
    findings = [found, {**found, "type": "Constraint", "text": f"always {HOSTILE}"}]
    reply = {"role": "assistant", "content": json.dumps({"findings": findings})}
    script = tmp_path / "curator.jsonl"
    script.write_text(json.dumps(reply))
    monkeypatch.setenv("HARNESS_MEMORY_CURATE_MODEL", f"scripted/{script}")
    a_run(own_home / "runs", "aaaa1111")
    text = client.post("/runs/aaaa1111/curate").text
    assert "<img src=x" not in text
    assert text.count("&lt;img src=x") == 2


@pytest.mark.parametrize("path", ["/runs/nothing", "/nowhere", "/static/nothing.js"])
def test_an_unknown_page_is_404(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
