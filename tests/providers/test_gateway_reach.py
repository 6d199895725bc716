"""Neither provider nor gateway does anything for an agent outside its sandbox."""

from collections.abc import Iterator

import pytest

from contracts.errors import ModelUnavailable
from providers.call_model import call_model
from providers.protocol import ModelRequest
from tests.support import anthropic_events
from tests.support.fake_provider import Answer, Provider, provider
from tests.support.gateway import Open

# litellm asks pydantic in ways that pydantic warns of, at whichever call comes first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict"),
]

MODEL = "anthropic/claude-sonnet-4-5"
PIXEL = "data:image/png;base64,aGk="
SCHEMA = {"type": "object", "properties": {}}
OWN = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
THEIRS = [
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "web_fetch_20250910", "name": "web_fetch"},
    {"type": "code_execution_20250522", "name": "code_execution"},
    {"type": "mcp", "server_url": "https://evil.example", "server_label": "evil"},
    {"type": "url", "url": "https://evil.example", "name": "evil"},
    {"googleSearch": {}},
    {"urlContext": {}},
    {"type": "function", "function": "web_search"},
]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Anthropic's API, and the address of the images that an agent names."""
    done = Answer(events=anthropic_events.message(anthropic_events.text("Done.")), named=True)
    with provider(done) as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        monkeypatch.setenv("ANTHROPIC_API_BASE", running.url)
        yield running


def test_tools_that_run_at_the_provider_are_removed(agent: Open, served: Provider) -> None:
    client = agent(MODEL)
    assert client.chat(stream=True, tools=[*THEIRS, OWN]).is_success
    assert client.chat(stream=True, tools=THEIRS, tool_choice="required").is_success
    first, second = served.requests
    assert [tool["name"] for tool in first["tools"]] == ["bash"]
    assert "mcp_servers" not in first
    assert "tools" not in second


@pytest.mark.parametrize("path", ["messages", "chat"])
def test_images_by_url_are_not_fetched(agent: Open, served: Provider, path: str) -> None:
    """Also not a URL hidden behind the beginning of inline data."""
    client, address = agent(MODEL), f"{served.url}/stolen.png"
    if path == "messages":
        sources: list[dict[str, str]] = [
            {"type": "url", "url": address},
            {"type": "base64", "media_type": f"image/png;base64,{address}", "data": "aGk="},
            {"type": "base64", "media_type": "image/png", "data": "aGk="},
        ]
        parts: list[object] = [{"type": "image", "source": source} for source in sources]
        turn = {"role": "user", "content": parts}
        response = client.post("/v1/messages", {"messages": [turn], "stream": True})
    else:
        urls = [{"url": address}, address, {"url": f"data:image/png;base64,{address}"}, PIXEL]
        parts = [{"type": "image_url", "image_url": url} for url in urls]
        parts += [{"type": "file", "file": {"file_id": address, "file_data": PIXEL}}, "x"]
        turn = {"role": "user", "content": parts}
        response = client.post("/v1/chat/completions", {"messages": [turn], "stream": True})
    assert response.is_success
    (request,) = served.requests
    assert "stolen" not in str(request)
    (shown,) = (part for part in request["messages"][0]["content"] if part["type"] == "image")
    assert shown["source"]["data"] == "aGk="
    assert "image that this model cannot be shown" in str(request)


def test_litellm_fetches_no_images_either(served: Provider) -> None:
    """A second protection, in case a part of an unknown form gets through."""
    url = f"{served.url}/stolen.png"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    with pytest.raises(ModelUnavailable, match="download is disabled"):
        call_model(
            MODEL, ModelRequest(messages=[{"role": "user", "content": content}], stream=True)
        )
    assert served.requests == []
