"""A run as a collector on loopback sees it."""

from collections.abc import Callable, Iterator

import pytest

from blueprints.dsl import agentic, blueprint, deterministic
from blueprints.engine import call_directly
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, Sandbox
from flows.config.settings import TelemetrySettings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.telemetry import trace_run
from flows.runs.request import ResolvedRequest
from nodes.commands import shell
from nodes.types import Node
from tests.support.collector import Collector, listening
from tests.support.flows import DONE

Ask = Callable[..., ResolvedRequest]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening() as there:
        yield there


def run_traced(shop: RunDependencies, request: ResolvedRequest, endpoint: str | None) -> str:
    with trace_run(TelemetrySettings(endpoint=endpoint), request, "abcd1234") as trace:
        tools = trace.dependencies(shop)
        report = run_blueprint(
            request, tools, run_id="abcd1234", make_wrapper=lambda: trace.perform(call_directly)
        )
        trace.ended(report, shop.runs / "abcd1234" / "trajectory.jsonl")
    return report.status


def test_run_nodes_commands_and_model_calls_are_spans_of_one_tree(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], collector: Collector
) -> None:
    nodes: list[Node] = [
        deterministic("say", "say it", shell("echo s3cret-words")),
        agentic("think", "think", prompt=lambda _: "think of s3cret-words"),
    ]
    name = model(DONE)
    request = ask(blueprint("talks", "Talks", nodes), model=name)
    assert run_traced(shop, request, collector.url) == "success"
    spans = collector.spans()
    assert {"run talks", "node say", "node think", f"model {name}"} <= set(spans)
    assert spans["node say"]["parent"] == spans["run talks"]["id"]
    assert any(
        one["parent"] == spans["node say"]["id"]
        for span, one in spans.items()
        if span.startswith("exec ")
    )
    assert {"harness.runs", "harness.run.duration", "harness.tokens"} <= collector.metrics()
    assert b"s3cret-words" not in b"".join(b for all_ in collector.sent.values() for b in all_)


def test_of_what_a_node_raises_only_the_class_is_told(
    shop: RunDependencies, ask: Ask, collector: Collector
) -> None:
    def leaks(_: RunContext, sandbox: Sandbox) -> NodeResult:
        sandbox.exec(Command(argv=("true",)), lambda *_: None)
        raise RuntimeError("POST https://api.example.org/?token=s3cret-words")

    request = ask(blueprint("leaks", "Leaks", [deterministic("leak", "leak", leaks)]))
    with pytest.raises(RuntimeError):
        run_traced(shop, request, collector.url)
    sent = b"".join(body for bodies in collector.sent.values() for body in bodies)
    assert b"RuntimeError" in sent
    assert b"s3cret-words" not in sent
    assert b"test_telemetry.py" not in sent


def test_a_collector_that_is_away_fails_no_run(shop: RunDependencies, ask: Ask) -> None:
    request = ask(blueprint("talks", "Talks", [deterministic("say", "say it", shell("true"))]))
    assert run_traced(shop, request, "http://127.0.0.1:9") == "success"


def test_without_an_endpoint_nothing_is_wrapped(shop: RunDependencies, ask: Ask) -> None:
    request = ask(blueprint("talks", "Talks", [deterministic("say", "say it", shell("true"))]))
    with trace_run(TelemetrySettings(), request, "abcd1234") as trace:
        assert trace.dependencies(shop) is shop
