import pytest

from contracts.chat import Usage
from providers.models import cost_usd, has_price
from providers.openai_messages import usage_from

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("anthropic/claude-sonnet-4-5", Usage(input=MILLION // 10), 0.3),
        ("anthropic/claude-sonnet-4-5", Usage(cache_read=MILLION // 10), 0.03),
        ("anthropic/claude-sonnet-4-5", Usage(cache_write=MILLION // 10), 0.375),
        ("anthropic/claude-sonnet-4-5", Usage(output=MILLION // 10), 1.5),
        ("openai/gpt-4o", Usage(input=MILLION), 2.5),
        ("ollama/qwen3:4b", Usage(input=MILLION), 0.0),
        ("openai/no-such-model", Usage(input=MILLION), 0.0),
        ("openai/deepseek-chat", Usage(input=MILLION), 0.0),  # another provider's
        ("azure/mistral-large-latest", Usage(input=MILLION, output=MILLION), 32.0),  # not found
    ],
)
def test_tokens_cost_litellms_list_price(model: str, usage: Usage, dollars: float) -> None:
    assert cost_usd(model, usage) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("model", "priced"),
    [
        ("anthropic/claude-sonnet-4-5", True),
        ("gemini/gemini-2.5-pro", True),
        ("ollama/qwen3:4b", True),
        ("scripted/replies.jsonl", True),
        ("openai/no-such-model", False),
        ("openai/deepseek-chat", False),
        ("openai/claude-sonnet-4-5", False),
        ("azure/mistral-large-latest", True),
        ("dashscope/qwen-flash", True),  # the more at once, the dearer
        ("github_copilot/claude-haiku-4.5", True),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", True),
        ("vertex_ai/gemini-2.5-pro", True),
    ],
)
def test_models_with_and_without_a_price(model: str, priced: bool) -> None:
    assert has_price(model) is priced


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None},
            Usage(input=10, output=2),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(input=6, cache_read=4),
        ),
        (
            {"input_tokens": 3, "output_tokens": 2, "cache_creation_input_tokens": 5},
            Usage(input=3, output=2, cache_write=5),
        ),
        ({"input": 3, "cache_read": 2, "cost_usd": 1}, Usage(input=3, cache_read=2, cost_usd=1.0)),
        ({"prompt_tokens": "many", "completion_tokens": -1}, Usage()),
        ({}, Usage()),
    ],
)
def test_token_counts_are_read_in_every_form(raw: dict[str, object], usage: Usage) -> None:
    assert usage_from(raw) == usage
