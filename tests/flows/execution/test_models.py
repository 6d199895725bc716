"""What settings and requests say about models reaches the agents of a run."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.terminal.output import print_report
from blueprints.dsl import agentic, blueprint
from blueprints.engine import RunListener
from contracts.errors import ModelUnavailable, SettingsInvalid
from flows.config.settings import load_settings
from flows.execution.engine import run_blueprint
from flows.execution.replay import replay
from flows.execution.wiring import build_dependencies
from tests.support.agent_calls import call, reply
from tests.support.flow_runs import WRITE_42, checked
from tests.support.flows import DONE, Ask, scripted_shop

RUN = "abcd3101"


def script(path: Path, *replies: Mapping[str, object]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in replies))
    return f"scripted/{path}"


def test_the_report_says_which_models_answered(
    own_store: Path, ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = script(tmp_path / "a.jsonl", reply("", call("bash", {"command": "true"})))
    second = script(
        tmp_path / "b.jsonl", reply("", call("bash", {"command": "id"})), reply("Done.")
    )
    node = agentic("think", "think", prompt=lambda _: "think", model=[first, second])
    report = run_blueprint(ask(blueprint("one", "One", [node])), scripted_shop(), run_id=RUN)
    assert report.status == "success"
    assert report.nodes[0].answers == {first: 1, second: 2}
    (notice,) = report.notices
    assert notice.startswith("another model was asked: scripted model")
    print_report(report)
    assert f"(replies: 2 by {second}, 1 by {first})" in capsys.readouterr().out


def test_a_run_with_several_models_is_replayed(
    own_store: Path, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checked()
    monkeypatch.setattr("flows.execution.replay.find_blueprint", lambda *_, **__: made)
    models = f"{script(tmp_path / 'a.jsonl', WRITE_42)}, {script(tmp_path / 'b.jsonl', DONE)}"
    shop = scripted_shop()
    assert run_blueprint(ask(made, model=models), shop, run_id=RUN).status == "success"
    assert replay(shop.runs, RUN, lambda path: scripted_shop(replay=path)).same


def test_every_model_must_have_a_key(
    ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    request = ask(checked(), model=f"{model(DONE)}, openai/gpt-4o")
    assert request.models == {model(DONE), "openai/gpt-4o"}
    with pytest.raises(ModelUnavailable, match="no key for 'openai/gpt-4o'"):
        build_dependencies().check_request(request)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('model = "a/b"', "a/b"),
        ('model = ["a/b", "c/d"]', "a/b, c/d"),
        ('model = "a/b,c/d"', "a/b,c/d"),
    ],
)
def test_settings_name_one_model_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, read: str
) -> None:
    (tmp_path / "own.toml").write_text(written)
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "own.toml"))
    monkeypatch.delenv("HARNESS_MODEL", raising=False)
    assert load_settings().model == read


@pytest.mark.parametrize("written", ["model = []", "model = [1]"])
def test_other_lists_of_models_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    (tmp_path / "own.toml").write_text(written)
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "own.toml"))
    monkeypatch.delenv("HARNESS_MODEL", raising=False)
    with pytest.raises(SettingsInvalid, match="setting 'model'"):
        load_settings()


@pytest.mark.parametrize(("tokens", "shortened"), [("4000", True), ("100000", False)])
def test_the_setting_context_tokens_bounds_the_conversation(
    own_store: Path,
    ask: Ask,
    model: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tokens: str,
    shortened: bool,
) -> None:
    monkeypatch.setenv("HARNESS_CONTEXT_TOKENS", tokens)
    looks = [reply("", call("bash", {"command": f"printf %09000d {n}"})) for n in range(3)]
    request = ask(
        blueprint("one", "One", [agentic("think", "think", prompt=lambda _: "think")]),
        model=model(*looks, reply("Done.")),
    )
    lines: list[str] = []
    watch = RunListener(on_line=lambda _, line: lines.append(line))
    report = run_blueprint(request, scripted_shop(), run_id=RUN, watch=watch)
    assert report.status == "success"
    assert ("the oldest parts of the conversation were left out" in lines) is shortened
