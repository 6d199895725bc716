"""The metrics that Prometheus scrapes, counted from reports."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from starlette.testclient import TestClient

from app.web.metrics import RunMetrics
from app.web.serve import create_app
from contracts.chat import Usage
from contracts.run import RunReport, RunStatus
from flows.runs.report import dumps
from tests.support.web import HERE


def report(folder: Path, run_id: str, status: RunStatus) -> None:
    """A run that ended so, after two seconds and ten tokens."""
    made = RunReport(
        run_id=run_id,
        blueprint="fix-tests",
        status=status,
        model="ollama/qwen3:4b",
        total_duration_ms=2_000,
        token_usage=Usage(input=10),
        cost_usd=0.25,
    )
    (folder / run_id).mkdir(parents=True, exist_ok=True)
    (folder / run_id / "report.json").write_text(dumps(made))


def test_runs_are_counted_once_each(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(RunMetrics(tmp_path))
    report(tmp_path, "one", "success")
    report(tmp_path, "two", "failure")
    generate_latest(registry)
    report(tmp_path, "three", "success")
    report(tmp_path, "four", "waiting")
    generate_latest(registry)
    report(tmp_path, "four", "failure")
    told = generate_latest(registry).decode()
    assert 'harness_runs_total{blueprint="fix-tests",status="success"} 2.0' in told
    assert 'harness_runs_total{blueprint="fix-tests",status="failure"} 2.0' in told
    assert 'status="waiting"' not in told, "it is counted when it ended"
    assert 'harness_run_seconds_total{blueprint="fix-tests",status="success"} 4.0' in told
    assert 'harness_tokens_total{kind="input",model="ollama/qwen3:4b"} 40.0' in told
    assert 'harness_cost_usd_total{model="ollama/qwen3:4b"} 1.0' in told
    assert 'harness_runs_now{state="running"} 0.0' in told


def test_a_run_that_goes_on_counts_once_for_each_end_with_what_it_spent_since(
    tmp_path: Path,
) -> None:
    registry = CollectorRegistry()
    registry.register(RunMetrics(tmp_path))
    report(tmp_path, "one", "failure")
    generate_latest(registry)
    (tmp_path / "one" / "report.json").unlink()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "report.json").write_text("{")
    generate_latest(registry)
    report(tmp_path, "one", "success")
    told = generate_latest(registry).decode()
    assert 'harness_runs_total{blueprint="fix-tests",status="failure"} 1.0' in told
    assert 'harness_runs_total{blueprint="fix-tests",status="success"} 1.0' in told
    assert 'harness_cost_usd_total{model="ollama/qwen3:4b"} 0.25' in told


def test_prometheus_on_this_machine_needs_no_token(own_home: Path, client: TestClient) -> None:
    report(own_home / "runs", "one", "success")
    scraped = client.get("/metrics")
    assert scraped.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'harness_runs_total{blueprint="fix-tests",status="success"} 1.0' in scraped.text
    assert client.get("/metrics").text == scraped.text, "a second scrape counts no run again"


def test_pages_with_a_token_ask_for_it_here_too(own_home: Path) -> None:
    guarded = TestClient(create_app(token="sesame"), base_url=HERE)
    assert guarded.get("/metrics").status_code == 401
    bearer = {"authorization": "Bearer sesame"}
    assert "harness_runs_now" in guarded.get("/metrics", headers=bearer).text


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.1:4280"])
def test_metrics_are_served_under_names_of_this_machine_only(client: TestClient, host: str) -> None:
    assert client.get("/metrics", headers={"host": host}).status_code == 403
