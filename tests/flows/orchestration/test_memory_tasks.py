"""Memory around a run: plain, and as tasks of a flow on a real Prefect server."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from contracts.chat import ChatRequest, Message, Reply
from contracts.errors import HarnessError, ModelUnavailable, OptionInvalid
from contracts.run import NodeReport, RunReport
from flows.config.memory import EmbeddingSettings, MemorySettings, load_memory_settings
from flows.orchestration.start import connected_to
from flows.orchestration.tasks import memory_tasks, recall_markdown
from flows.recall.library import configured_library
from flows.recall.playbooks import MemoryUnavailable, RunMemory, run_memory
from memory.types import PlaybookContent, PlaybookQuery, RecordedRun, Reflection
from providers import minilm

WORDS = MemorySettings(embedding=EmbeddingSettings(provider="none"), holdout_share=0.0)


def ended(run_id: str, said: str = "") -> RunReport:
    node = NodeReport(name="fix", type="agentic", status="success", output=said)
    return RunReport(
        run_id=run_id, blueprint="fix-tests", status="success", nodes=(node,), intent="rotate keys"
    )


@pytest.fixture
def slug(own_home: Path) -> str:
    with configured_library(WORDS) as opened:
        return opened.create(PlaybookContent(title="rotate keys")).slug


def test_a_second_run_sees_what_the_first_recorded(slug: str) -> None:
    first = run_memory(WORDS)
    assert "executions: 0" in first.surface("r1", "rotate the keys").text
    first.record(ended("r1", f"[playbook:{slug}]"), False)
    second = run_memory(WORDS)
    assert "1 of 1 runs succeeded" in second.surface("r2", "rotate the keys").text
    second.record(ended("r2"), False)
    with configured_library(WORDS) as opened:
        assert opened.stats().executions == 2
        assert opened.get(slug).counts.successes == 2


def test_a_run_goes_on_when_memory_does_not_answer(slug: str) -> None:
    away = run_memory(WORDS.model_copy(update={"data": "postgresql://x@127.0.0.1:9/none"}))
    assert away.surface("r1", "rotate the keys").text == ""
    assert away.shown_playbooks("r1") == ()
    assert isinstance(away.record(ended("r1"), False), MemoryUnavailable)


def test_memory_can_be_turned_off(slug: str) -> None:
    off = run_memory(WORDS.model_copy(update={"enabled": False}))
    assert off.surface("r1", "rotate the keys").text == ""
    assert off.record(ended("r1"), False) is None
    assert off.shown_playbooks("r1") == ()
    with configured_library(WORDS) as opened:
        assert opened.stats().executions == 0


def test_what_a_model_makes_of_a_run_waits_for_a_person(slug: str) -> None:
    def complete(_: ChatRequest) -> Reply:
        return Reply(message=Message(role="assistant", content='{"improvements": ["Wait"]}'))

    options = WORDS.model_copy(update={"reflect_model": "any"})
    waits = run_memory(options, complete)
    waits.surface("r1", "rotate the keys")
    waits.record(ended("r1"), False)
    with configured_library(WORDS) as opened:
        assert opened.get(slug).lessons == ()
        assert len(opened.waiting_reflections()) == 1
        opened.apply_reflection(slug, Reflection(improvements=("Wait",)), run_id="r1")
        assert opened.waiting_reflections() == []
    assert "Wait" in run_memory(options).surface("r2", "rotate the keys").text


def test_an_older_file_that_lets_lessons_in_lets_none_in(
    slug: str, own_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def complete(_: ChatRequest) -> Reply:
        said = '{"improvements": ["Obey"], "what_failed": ["Not obeying"]}'
        return Reply(message=Message(role="assistant", content=said))

    (own_home / "harness.toml").write_text(
        '[memory]\nauto_reflect = true\napprove_confidence = 0\nreflect_model = "any"\n'
        'holdout_share = 0.0\n[memory.embedding]\nprovider = "none"\n'
    )
    learns = run_memory(load_memory_settings(), complete)
    load_memory_settings()
    learns.surface("r1", "rotate the keys")
    learns.record(ended("r1"), False)
    assert "Obey" not in learns.surface("r2", "rotate the keys").text
    with configured_library(WORDS) as opened:
        assert opened.get(slug).lessons == ()
        assert len(opened.waiting_reflections()) == 1
    told = [one.getMessage() for one in caplog.records if "no effect any more" in one.getMessage()]
    assert ["memory.auto_reflect" in told[0], "memory.approve_confidence" in told[1]] == [True] * 2
    assert len(told) == 2


def test_a_setting_of_before_that_was_off_is_passed_over(
    own_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_home.mkdir(exist_ok=True)
    (own_home / "harness.toml").write_text("[memory]\nauto_reflect = false\nlimit = 3\n")
    assert load_memory_settings().limit == 3
    assert caplog.records == []


@pytest.mark.parametrize("error", [ModelUnavailable("no key"), OptionInvalid("no such file")])
def test_a_model_that_does_not_reflect_leaves_the_run_recorded(
    slug: str, error: HarnessError
) -> None:
    def away(_: ChatRequest) -> Reply:
        raise error

    asked = run_memory(WORDS.model_copy(update={"reflect_model": "any"}), away)
    asked.surface("r1", "rotate the keys")
    recorded = asked.record(ended("r1"), False)
    assert isinstance(recorded, RecordedRun)
    assert (recorded.playbooks != (), recorded.reflection) == (True, None)


@pytest.mark.skipif(
    not minilm.is_installed(),
    reason="no package index was there to make the model from: set-up said so",
)
def test_the_cut_by_distance_is_that_of_the_model_in_use(own_home: Path) -> None:
    """This question and its answer share no word and lie at a distance of 0.41."""
    with configured_library(
        MemorySettings(embedding=EmbeddingSettings(provider="local"))
    ) as opened:
        wanted = opened.create(
            PlaybookContent(
                title="Restore a Postgres backup",
                use_case="Rows or whole relations of the database were lost, dropped or "
                "overwritten, and an earlier dump has to be loaded",
            )
        )
        asked = "somebody wiped the customer table, bring it back from last night"
        assert [hit.playbook.id for hit in opened.search(PlaybookQuery(text=asked))] == [wanted.id]
        assert opened.search(PlaybookQuery(text=asked, max_distance=0.3)) == []


def test_nobody_is_asked_to_reflect_where_nothing_can_be_learned(slug: str) -> None:
    asked: list[ChatRequest] = []

    def complete(request: ChatRequest) -> Reply:
        asked.append(request)
        return Reply(message=Message(role="assistant", content="{}"))

    options = WORDS.model_copy(update={"reflect_model": "any"})
    reflecting = run_memory(options, complete)
    reflecting.surface("stopped", "rotate the keys")
    reflecting.record(replace(ended("stopped"), status="cancelled"), False)
    assert asked == []
    reflecting.surface("done", "rotate the keys")
    reflecting.record(replace(ended("done"), intent="x" * 10**6), False)
    (request,) = asked
    assert len(request.messages[0].content) < 10_000
    assert request.max_tokens is not None


def test_what_was_shown_is_explained(slug: str) -> None:
    shown = run_memory(WORDS).surface("r1", "rotate the keys")
    assert f"| {slug} | yes |" in recall_markdown(shown)
    assert "words #1" in recall_markdown(shown)
    (hit,) = shown.results.hits
    page = f"http://127.0.0.1:4280/playbooks/{hit.playbook.id}"
    assert f"| [{slug}]({page}) | yes |" in recall_markdown(shown, "http://127.0.0.1:4280/")


@pytest.fixture
def server(prefect_api: str) -> Iterator[str]:
    with connected_to(prefect_api):
        yield prefect_api


@pytest.mark.prefect
def test_both_are_task_runs_with_artifacts(slug: str, server: str) -> None:
    plain: RunMemory = run_memory(WORDS)

    @flow
    def one_run() -> str:
        tasks = memory_tasks(plain)
        text = tasks.surface("r1", "rotate the keys").text
        tasks.record(ended("r1"), False)
        return text

    assert slug in one_run()
    with get_client(sync_client=True) as client:
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=["playbooks-r1", "execution-r1"]))
        keys = {artifact.key for artifact in client.read_artifacts(artifact_filter=wanted)}
        names = {run.name.rsplit("-", 1)[0] for run in client.read_task_runs()}
    assert keys == {"playbooks-r1", "execution-r1"}
    assert {"surface playbooks", "record execution"} <= names


def test_a_run_that_asks_nothing_of_memory_does_not_wait_for_its_libraries() -> None:
    told = (
        "import sys, flows.execution.wiring, flows.orchestration.compile\n"
        "print([m for m in ('sqlalchemy', 'alembic', 'chromadb', 'numpy') if m in sys.modules])"
    )
    seen = subprocess.run((sys.executable, "-c", told), capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"


def test_what_memory_needs_is_loaded_while_a_run_does_something_else(own_home: Path) -> None:
    told = (
        "import sys, threading\n"
        "from flows.recall.playbooks import run_memory\n"
        "run_memory().prepare()\n"
        "[t.join() for t in threading.enumerate() if t.name == 'memory']\n"
        "print('memory.playbooks.library' in sys.modules)"
    )
    seen = subprocess.run((sys.executable, "-c", told), capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "True"
