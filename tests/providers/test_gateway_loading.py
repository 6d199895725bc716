"""The gateway imports litellm in a thread, and callers wait for that."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from contracts.errors import ModelUnavailable
from contracts.model_access import TokenSpec
from providers import client as gateway_client
from providers.client import Gateway
from providers.gateway_api import RunTerms
from tests.support.gateway import Script
from tests.support.running_gateway import SECRET
from tests.support.waiting import LONG_S

MODEL = "openai/gpt-4o"


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Future[ModuleType]:
    """The import of litellm, which ends when the test says so."""
    future: Future[ModuleType] = Future()
    monkeypatch.setattr("providers.open_runs.litellm_import", lambda: future)
    return future


@pytest.fixture
def client(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> "Callable[..., Gateway]":
    monkeypatch.setattr(gateway_client, "_FIRST_LINE_S", 0.0)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    return lambda say: Gateway(gateway.url, SECRET, say=say)


def use(gateway: Gateway, folder: Path, model: str, **terms: object) -> None:
    fields = {"run_id": "r1", "trajectory": folder / "t.jsonl", **terms}
    with (
        closing(gateway),
        gateway.run(RunTerms.model_validate(fields)) as open_access,
        open_access(TokenSpec(node="fix", agent="native", model=model)),
    ):
        pass


def test_an_agent_waits_for_it_and_is_told_why(
    client: Callable[..., Gateway], loading: Future[ModuleType], tmp_path: Path
) -> None:
    told, lines = threading.Event(), list[str]()

    def say(line: str) -> None:
        lines.append(line)
        told.set()

    waiting = threading.Thread(target=use, args=(client(say), tmp_path, MODEL))
    waiting.start()
    assert told.wait(LONG_S)
    assert waiting.is_alive()
    loading.set_result(threading)
    waiting.join()
    assert lines[0].startswith("the gateway is still loading litellm (")


def test_an_import_that_fails_is_one_clear_error(
    client: Callable[..., Gateway], loading: Future[ModuleType], tmp_path: Path
) -> None:
    loading.set_exception(ImportError("no module"))
    with pytest.raises(ModelUnavailable, match="litellm cannot be imported: no module"):
        use(client(print), tmp_path, MODEL)


def test_a_replay_and_local_models_wait_for_nothing(
    client: Callable[..., Gateway],
    loading: Future[ModuleType],
    script: Script,
    tmp_path: Path,
) -> None:
    local, lines = f"{script({'content': 'hi'})}, ollama/qwen3", list[str]()
    use(client(lines.append), tmp_path, local)
    use(client(lines.append), tmp_path, MODEL, replay=tmp_path / "recorded.jsonl")
    assert lines == []
