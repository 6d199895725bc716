"""Notes and examples around a run: in the prompt, on the report, as an artifact."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from blueprints.dsl import agentic, blueprint
from blueprints.types import Blueprint
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows.config.memory import EmbeddingSettings, MemorySettings
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.orchestration.start import connected_to
from flows.orchestration.tasks import note_tasks
from flows.recall.library import configured_notebook
from flows.recall.notes import NodeRequest, prompt_markdown, run_notes
from flows.services.daemon import RunningDaemon
from flows.services.daemons import pages_daemon as kept_pages
from memory.errors import EntryInvalid
from memory.notes.agent_settings import InjectionOptions
from memory.notes.injection import Injection
from memory.notes.types import ExampleContent, NoteContent
from memory.scope import Scope
from nodes.execute import RunAgent
from nodes.types import Agentic
from providers.trajectory import read_trajectory
from sandbox.process_label import process_label
from tests.support.flows import DONE, Ask

WORDS = MemorySettings(embedding=EmbeddingSettings(provider="none"), holdout_share=0.0)
SEAT = NodeRequest("r1", "fix", Scope(agent="native", user="ann", company="acme"), "mend it")

Prompts = dict[str, str]


@pytest.fixture
def words_only(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")


@pytest.fixture
def prompts() -> Prompts:
    """What each node's agent was told of memory."""
    return {}


@pytest.fixture
def listening(shop: RunDependencies, prompts: Prompts, words_only: None) -> RunDependencies:
    """A dependencies whose agents only keep what they are told."""

    @contextmanager
    def agents(*_: object) -> Iterator[RunAgent]:
        def run_agent(node: Agentic, ctx: RunContext, _: Sandbox) -> NodeResult:
            prompts[node.name] = ctx.memory
            return NodeResult.success("done")

        yield run_agent

    return replace(shop, open_agents=agents)


def two_agents() -> Blueprint:
    return blueprint(
        "two",
        "Two agents",
        [
            agentic("think", "think", prompt=lambda _: "think"),
            agentic("write", "write", prompt=lambda _: "write", agent="pi"),
        ],
    )


def test_each_node_gets_the_notes_of_its_agent_user_and_company(
    listening: RunDependencies, prompts: Prompts, ask: Ask
) -> None:
    with configured_notebook() as book:
        rule = book.add(NoteContent(text="never log names", scope=Scope(company="acme")))
        own = book.add(NoteContent(text="short words", scope=Scope(agent="pi", user="ann")))
        book.add(NoteContent(text="not for ann", scope=Scope(user="bob")))
        shown = book.add(ExampleContent(input="mend", output="mended"))
    asked = ask(two_agents()).changed(user="ann", company="acme")
    report = run_blueprint(asked, listening, run_id="abcd1234")
    assert "never log names" in prompts["think"]
    assert "short words" not in prompts["think"]
    assert "short words" in prompts["write"]
    assert "not for ann" not in "".join(prompts.values())
    assert set(report.surfaced.notes) == {rule.id, own.id}
    assert report.surfaced.examples == (shown.id,)
    with configured_notebook() as book:
        assert book.runs.count_runs_with(rule.id) == 1
        assert [one.node for one in book.runs.injected_into("abcd1234")] == ["think"] * 2 + [
            "write"
        ] * 3


def test_a_run_without_a_user_gets_no_private_notes(
    listening: RunDependencies, prompts: Prompts, ask: Ask
) -> None:
    with configured_notebook() as book:
        book.add(NoteContent(text="secret of ann", scope=Scope(user="ann")))
        book.add(NoteContent(text="secret of acme", scope=Scope(company="acme")))
    report = run_blueprint(ask(two_agents()), listening, run_id="abcd1234")
    assert "secret" not in "".join(prompts.values())
    assert report.surfaced.notes == ()


def test_a_note_is_in_the_prompt_that_the_model_reads(
    shop: RunDependencies, words_only: None, ask: Ask, model: Callable[..., str]
) -> None:
    with configured_notebook() as book:
        book.add(NoteContent(text="never log names", type="Constraint"))
    node = agentic("think", "think", prompt=lambda _: "think")
    asked = ask(blueprint("one", "One", [node]), model=model(DONE))
    run_blueprint(asked, shop, run_id="abcd1234")
    said = read_trajectory(shop.runs / "abcd1234" / "trajectory.jsonl")
    assert "never log names" in str(next(one for one in said if one["kind"] == "request"))


def test_a_run_continues_when_the_notebook_is_unavailable(own_home: Path) -> None:
    away = WORDS.model_copy(update={"data": "postgresql://x@127.0.0.1:9/none"})
    with run_notes(away) as book:
        assert book.inject(SEAT).text == ""
        assert book.surfaced("r1").notes == ()


def test_notes_are_off_when_memory_is_off(own_home: Path) -> None:
    with configured_notebook(WORDS) as book:
        book.add(NoteContent(text="a"))
    with run_notes(WORDS.model_copy(update={"enabled": False})) as book_:
        assert book_.inject(SEAT).text == ""


def test_an_invalid_user_name_is_refused_before_anything_starts(
    shop: RunDependencies, ask: Ask, words_only: None
) -> None:
    with pytest.raises(EntryInvalid, match="user"):
        shop.check_request(ask(two_agents()).changed(user="a\u202eb"))


def test_an_empty_injection_is_explained_only_if_vectors_are_missing() -> None:
    waits = "notes by meaning; 1 have no vector yet"
    assert (
        prompt_markdown(Injection(options=InjectionOptions(), reasons=(waits,), without_vector=1))
        == f"- {waits}"
    )
    assert (
        prompt_markdown(Injection(options=InjectionOptions(), reasons=("notes by meaning",))) == ""
    )


def test_the_explanation_contains_no_markup_of_notes(own_home: Path) -> None:
    with configured_notebook(WORDS) as book:
        made = book.add(NoteContent(text="| <script>alert(1)</script> `x` |"))
        book.add(NoteContent(text="long " * 799))
    with run_notes(WORDS) as opened:
        told = opened.inject(SEAT).explanation
    assert f"| `harness notes show {made.id}` |" in told
    assert "<script>" not in told
    assert "\\| &lt;script&gt;" in told
    assert "notes by words, then by date: no embedding model is set" in told


def test_the_explanation_links_to_pages_without_their_token(own_home: Path) -> None:
    with configured_notebook(WORDS) as book:
        made = book.add(NoteContent(text="never log names"))
    here = kept_pages(load_settings())
    url = "http://127.0.0.1:4280/?token=secret"
    here.folder.mkdir(parents=True)
    mine = RunningDaemon(url=url, pid=os.getpid(), process=process_label(os.getpid()))
    here.state_file.write_text(json.dumps(asdict(mine)))
    with run_notes(WORDS) as opened:
        told = opened.inject(SEAT).explanation
    assert f"](http://127.0.0.1:4280/notes/{made.id})" in told
    assert "secret" not in told


@pytest.mark.prefect
def test_the_explanation_is_an_artifact(own_home: Path, prefect_api: str) -> None:
    with configured_notebook(WORDS) as book:
        book.add(NoteContent(text="never log names"))

    @flow
    def one_run() -> str:
        with note_tasks(lambda: run_notes(WORDS)) as opened:
            return opened.inject(SEAT._replace(run_id="n1", node="fix (attempt 1)")).text

    with connected_to(prefect_api):
        assert "never log names" in one_run()
        with get_client(sync_client=True) as client:
            key = ArtifactFilterKey(any_=["notes-n1-fix-attempt-1"])
            assert client.read_artifacts(artifact_filter=ArtifactFilter(key=key))
