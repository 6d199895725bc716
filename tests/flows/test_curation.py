"""Curation of real run folders, through the real gateway with a scripted model."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint
from contracts.errors import OptionInvalid, RunNotFound
from flows.curation import ago, curate_run, curate_since
from flows.library import notebook
from flows.rate import rate_run
from flows.run import run_blueprint
from flows.workshop import Workshop
from tests.flows.conftest import Ask
from tests.flows.test_run import DONE

FOUND = {
    "type": "Context",
    "scope": "user",
    "text": "the project has no lock file",
    "confidence": 80,
}


def answer(*findings: object) -> dict[str, object]:
    return {"role": "assistant", "content": json.dumps({"findings": findings})}


@pytest.fixture
def run(
    shop: Workshop, ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Does a run of one agent for ann; gives its id."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")

    def run_it(run_id: str) -> str:
        node = agentic("think", "think", prompt=lambda _: "think")
        asked = replace(ask(blueprint("one", "One", [node]), model=model(DONE)), user="ann")
        return run_blueprint(asked, shop, run_id=run_id).run_id

    return run_it


@pytest.fixture
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes the configured curator give these replies."""

    def give(*replies: dict[str, object]) -> str:
        path = tmp_path / "curator.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        monkeypatch.setenv("HARNESS_MEMORY_CURATE_MODEL", f"scripted/{path}")
        return f"scripted/{path}"

    return give


def test_a_run_is_curated_on_request(run: Callable[..., str], curator: Callable[..., str]) -> None:
    run_id = run("abcd1234")
    (made,) = curate_run("abcd", model=curator(answer(FOUND))).written
    assert (made.status, made.source_run, made.scope.user) == ("Pending", run_id, "ann")
    with pytest.raises(RunNotFound):
        curate_run("ffff")


def test_only_runs_rated_above_80_are_curated_unasked_and_once(
    run: Callable[..., str], curator: Callable[..., str]
) -> None:
    for run_id, score in (("aaaa1111", 81), ("bbbb2222", 80), ("cccc3333", None)):
        run(run_id)
        if score is not None:
            rate_run(run_id, score)
    curator(answer(FOUND))
    since = datetime.now(UTC) - timedelta(hours=1)
    assert [one.run_id for one in curate_since(since)] == ["aaaa1111"]
    assert list(curate_since(since)) == []


def test_a_run_that_earned_it_teaches_as_it_ends(
    run: Callable[..., str], curator: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    curator(answer(FOUND))
    run("aaaa1111")
    with notebook() as book:
        assert book.count("note") == 0
    monkeypatch.setenv("HARNESS_MEMORY_CURATE", "success")
    run("bbbb2222")
    with notebook() as book:
        assert [note.source_run for note in book.list("note")] == ["bbbb2222"]


def test_a_curator_that_is_away_fails_no_run(
    run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_CURATE", "success")
    monkeypatch.setenv("HARNESS_MEMORY_CURATE_MODEL", "scripted/nothing-here")
    assert run("aaaa1111") == "aaaa1111"


@pytest.mark.parametrize("text", ["", "h", "yesterday", "24", "1e999d", "nanh"])
def test_a_length_of_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionInvalid, match="90m, 24h, 7d"):
        ago(text, datetime.now(UTC))
