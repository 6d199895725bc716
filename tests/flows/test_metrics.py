"""The figures that Prometheus is given, counted from reports."""

from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from contracts.chat import Usage
from contracts.run import RunReport, RunStatus
from flows.runs.report import dumps
from flows.services.metrics import Runs


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
    registry.register(Runs(tmp_path))
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
    registry.register(Runs(tmp_path))
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
