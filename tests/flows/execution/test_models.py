"""What settings and requests say about models reaches the agents of a run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blueprints.dsl import agentic, blueprint
from blueprints.engine import RunListener
from flows.execution.engine import run_blueprint
from tests.support.agent_calls import call, reply
from tests.support.flows import Ask, scripted_shop


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
    report = run_blueprint(request, scripted_shop(), run_id="abcd3101", watch=watch)
    assert report.status == "success"
    assert ("the oldest parts of the conversation were left out" in lines) is shortened
