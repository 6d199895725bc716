"""Several models: the next one is asked when one does not answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.chat import ChatRequest
from contracts.model_access import AgentUsage, ModelAccess
from providers.client import Gateway
from providers.trajectory import event_line
from tests.support import openai_events
from tests.support.fake_provider import Answer, provider, use_as_openai
from tests.support.gateway import ASK, USAGE, Open
from tests.support.running_gateway import running_gateway

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

FAILING = "openai/gpt-4o"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


@pytest.fixture
def delays() -> list[float]:
    return []


@pytest.fixture
def gateway(delays: list[float]) -> Iterator[Gateway]:
    """A gateway that does not really wait before retries."""
    with running_gateway(sleep=delays.append) as client:
        yield client


@pytest.fixture
def scripted(tmp_path: Path) -> "Scripted":
    return Scripted(tmp_path)


class Scripted:
    """Makes scripted models, each of which fails after its replies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, count: int, **more: object) -> str:
        replies = [{"content": f"{name}{n}", "usage": USAGE, **more} for n in range(1, count + 1)]
        path = self._folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"


def failure(status: int, **headers: str) -> Answer:
    return Answer({"error": {"message": "no"}}, status, headers=headers)


def answers(access: ModelAccess, count: int, request: ChatRequest = ASK) -> list[str]:
    return [access.complete(request).message.content for _ in range(count)]


def answered(spent: AgentUsage) -> dict[str, int]:
    return {model.rpartition("/")[2]: count for model, count in spent.answers.items()}


def test_the_next_model_answers_when_one_does_not(agent: Open, scripted: Scripted) -> None:
    first, second = scripted("a", 2), scripted("b", 3)
    client = agent(f"{first}, {second}")
    assert answers(client.access, 4) == ["a1", "a2", "b1", "b2"]
    assert client.access.complete(ASK).model == second
    (event,) = client.events("fallback")
    assert event["model"] == first
    assert "no reply left" in event_line(event)
    assert [event["model"] for event in client.events("reply")] == [first] * 2 + [second] * 3


def test_the_turns_and_dollars_of_all_models_count(agent: Open, scripted: Scripted) -> None:
    client = agent(f"{scripted('a', 2)},{scripted('b', 9)}", budget_usd=0.014)
    said = [client.messages().status_code for _ in range(5)]
    assert said == [200, 200, 200, 200, 400]
    spent = client.access.current_usage()
    assert answered(spent) == {"a.jsonl": 2, "b.jsonl": 2}
    assert spent.usage.cost_usd == pytest.approx(4 * 0.004)
    assert str(spent.stopped).startswith("budget exceeded: $0.0160 of $0.014")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("failing", "requests", "waits"),
    [
        (failure(401), 1, []),
        (failure(500), 3, [1.0, 2.0]),
        (failure(429), 5, [1.0, 2.0, 4.0, 8.0]),
        (failure(429, **{"retry-after": "31"}), 1, []),
    ],
)
def test_a_failing_provider_is_left_for_the_rest_of_the_run(
    agent: Open,
    monkeypatch: pytest.MonkeyPatch,
    scripted: Scripted,
    delays: list[float],
    failing: Answer,
    requests: int,
    waits: list[float],
    stream: bool,
) -> None:
    with provider(failing) as served:
        use_as_openai(served, monkeypatch)
        client = agent(f"{FAILING}, {scripted('b', 2)}")
        assert "b1" in client.messages(stream=stream).text
        assert "b2" in client.messages(stream=stream).text
    assert (len(served.requests), delays) == (requests, waits)


def test_a_model_that_failed_is_asked_again_when_the_others_fail(
    agent: Open, monkeypatch: pytest.MonkeyPatch, scripted: Scripted
) -> None:
    with provider(failure(401), Answer(events=openai_events.text("hi"))) as served:
        use_as_openai(served, monkeypatch)
        client = agent(f"{FAILING}, {scripted('b', 1)}")
        assert "b1" in client.messages(stream=True).text
        assert "hi" in client.messages(stream=True).text


def test_a_refused_request_goes_to_no_other_model(
    agent: Open, monkeypatch: pytest.MonkeyPatch, scripted: Scripted
) -> None:
    with provider(failure(400)) as served:
        use_as_openai(served, monkeypatch)
        client = agent(f"{FAILING}, {scripted('b', 1)}")
        assert "refused the request as malformed" in client.messages().text
    assert client.events("fallback") == []


def test_a_model_whose_answer_broke_off_is_asked_last(
    agent: Open, tmp_path: Path, scripted: Scripted
) -> None:
    event = {"kind": "broken", "why": "cut", "message": {"role": "assistant", "content": "I lo"}}
    (tmp_path / "cut.jsonl").write_text(json.dumps(event) + '\n{"content": "again"}\n')
    client = agent(f"scripted/{tmp_path / 'cut.jsonl'}, {scripted('b', 1)}")
    assert "cut" in client.messages(stream=True).text
    assert "b1" in client.messages(stream=True).text


def test_the_last_error_is_the_agents(agent: Open, scripted: Scripted) -> None:
    client = agent(f"{scripted('a', 1)}, {scripted('b', 1)}")
    assert answers(client.access, 2) == ["a1", "b1"]
    assert "a.jsonl' has no reply left" in client.messages().text  # which failed before b did
    assert "a.jsonl' has no reply left" in str(client.access.current_usage().outage)


def test_a_resumed_run_knows_how_many_replies_each_model_gave(
    agent: Open, scripted: Scripted
) -> None:
    first, second = scripted("a", 2), scripted("b", 9)
    client = agent(f"{first}, {second}", replies_given={first: 2, second: 1})
    assert answers(client.access, 1) == ["b2"]


def test_the_shortest_context_of_the_models_counts(agent: Open, scripted: Scripted) -> None:
    models = f"anthropic/claude-sonnet-4-5, {FAILING}, {scripted('a', 1)}"
    assert agent(models).access.context_tokens == 128_000
