"""The upkeep flows."""

from collections.abc import Callable, Iterator
from time import sleep

import pytest

from blueprints.dsl import agentic, blueprint
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.orchestration.compile import compile_blueprint
from flows.orchestration.start import connected_to
from flows.recall.curation import rate_run
from flows.recall.library import configured_library, configured_notebook
from flows.services.daemons import worker_daemon
from flows.services.deploy import deploy, missing_worker_warning
from flows.upkeep import curate_one, curate_runs, prune_memory, reindex_memory
from memory.notes.types import Note
from memory.types import PlaybookContent
from tests.support.flows import DONE, FOUND, Ask, answer
from tests.support.here import here

pytestmark = pytest.mark.prefect


@pytest.fixture(autouse=True)
def server(prefect_api: str) -> Iterator[None]:
    with connected_to(prefect_api):
        yield


def titles() -> list[str]:
    with configured_library() as opened:
        return [playbook.title for playbook in opened.list()]


def test_pruning_archives_stale_playbooks_unless_it_is_a_dry_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_MAX_AGE_DAYS", "0")
    with configured_library() as opened:
        opened.create(PlaybookContent(title="Old hat"))
    prune_memory(dry_run=True)
    assert titles() == ["Old hat"]
    prune_memory()
    assert titles() == []


def test_reindexing_keeps_every_playbook_findable() -> None:
    with configured_library() as opened:
        opened.create(PlaybookContent(title="Mend the build"))
    reindex_memory()
    assert titles() == ["Mend the build"]


SIX = [{**FOUND, "text": f"part {n} has no lock file"} for n in range(6)]


def notes() -> list[Note]:
    with configured_notebook() as book:
        return list(book.list("note"))


def artifact(api: str, key: str) -> str:
    return str(here().get(f"{api}/artifacts/{key}/latest").json()["data"])


def test_the_nightly_curation_proposes_at_most_five_entries(
    run: Callable[..., str],
    curator: Callable[..., str],
    prefect_api: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for run_id in ("aaaa1111", "bbbb2222"):
        rate_run(run(run_id), 95)
    run("cccc3333")
    curator(answer(*SIX))
    monkeypatch.setenv("HARNESS_MEMORY_CURATE", "off")
    curate_runs()
    assert notes() == []
    monkeypatch.delenv("HARNESS_MEMORY_CURATE")
    curate_runs()
    found = notes()
    assert {note.status for note in found} == {"Pending"}
    assert sorted(note.source_run or "" for note in found) == ["aaaa1111"] + ["bbbb2222"] * 5
    assert "at most" in artifact(prefect_api, "curated-bbbb2222")
    assert artifact(prefect_api, "curated-aaaa1111").count("known already") == 5
    curate_runs()
    assert len(notes()) == 6


def test_curating_a_run_twice_adds_nothing(
    run: Callable[..., str], curator: Callable[..., str]
) -> None:
    run_id = run("aaaa1111")
    curator(answer(FOUND))
    curate_one(run_id[:6])
    curate_one(run_id)
    curator()  # who is not asked asks no model
    curate_one(run_id, once=True)
    assert [note.status for note in notes()] == ["Pending"]


def test_a_good_rating_starts_a_curation_by_the_worker(
    run: Callable[..., str], curator: Callable[..., str], own_api: str
) -> None:
    run_id = run("aaaa1111")
    curator(answer(FOUND))
    settings = load_settings()
    deploy(own_api)
    here = worker_daemon(settings, own_api)
    here.up()
    try:
        while missing_worker_warning(own_api) is not None:
            sleep(0.2)
        with connected_to(own_api):
            assert rate_run(run_id, 90).look == "started"
        while not notes():
            assert here.status() is not None
            sleep(0.2)
    finally:
        here.down()
    assert [(note.status, note.source_run) for note in notes()] == [("Pending", run_id)]


def test_a_run_worth_curating_is_curated_in_its_own_task(
    shop: RunDependencies,
    ask: Ask,
    model: Callable[..., str],
    curator: Callable[..., str],
    prefect_api: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    monkeypatch.setenv("HARNESS_MEMORY_CURATE", "success")
    curator(answer({**FOUND, "scope": "global"}))
    think = blueprint("one", "One", [agentic("think", "think", prompt=lambda _: "think")])
    flow = compile_blueprint(think, lambda: shop)
    state = flow(repo=ask(think).repo, model=model(DONE), return_state=True)
    report = state.result()
    assert [(note.status, note.source_run) for note in notes()] == [("Pending", report.run_id)]
    assert "Pending" in artifact(prefect_api, f"curated-{report.run_id}")
    flow_run = {"flow_runs": {"id": {"any_": [str(state.state_details.flow_run_id)]}}}
    tasks = here().post(f"{prefect_api}/task_runs/filter", json=flow_run).json()
    assert "curate run" in {task["name"] for task in tasks}
