"""A run's id is the end of its flow run's id, or a new one: never another run's."""

import json
from pathlib import Path

import pytest

from blueprints.dsl import blueprint, deterministic
from contracts.errors import RunNotResumable
from flows.execution.dependencies import RunDependencies
from flows.orchestration.start import connected_to, run_in_flow_run
from flows.runs.request import new_run_id
from flows.runs.runs import read_entry, read_report
from nodes.commands import command


@pytest.mark.prefect
def test_a_flow_run_whose_id_ends_as_another_runs_is_refused_and_leaves_that_run_alone(
    shop: RunDependencies, repository: Path, prefect_api: str
) -> None:
    from flows.orchestration.compile import compile_blueprint

    look = blueprint("look", "Look", [deterministic("look", "look", command("true"))])
    flow = compile_blueprint(look, lambda: shop)
    asked: dict[str, object] = {"repo": str(repository), "model": "scripted/none"}
    with connected_to(prefect_api):
        flow_run = str(flow(**asked, return_state=True).state_details.flow_run_id)
        again = run_in_flow_run(flow, asked, flow_run)
        assert again.is_completed(), "its own flow run, tried again, ends as it did"
        note = shop.runs / flow_run[-8:] / "run.json"
        known = json.loads(note.read_text())
        other = f"00000000-0000-4000-8000-0000{flow_run[-8:]}"
        note.write_text(json.dumps({**known, "flow_run_id": other, "repo": "/srv/other"}))
        before = read_report(shop.runs, flow_run[-8:])
        refused = run_in_flow_run(flow, asked, flow_run).result(raise_on_failure=False)
    assert isinstance(refused, RunNotResumable)
    assert f"run id {flow_run[-8:]} is taken" in str(refused)
    assert read_report(shop.runs, flow_run[-8:]) == before
    assert read_entry(shop.runs, flow_run[-8:]).repo == "/srv/other"


def test_a_new_run_gets_an_id_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["aaaa1111", "aaaa1111", "bbbb2222"])
    monkeypatch.setattr("flows.runs.request.random.token_hex", lambda _: next(drawn))
    (tmp_path / new_run_id(tmp_path)).mkdir()
    assert new_run_id(tmp_path) == "bbbb2222"
