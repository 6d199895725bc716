from pathlib import Path

import pytest

from contracts.errors import ModelUnavailable, OptionInvalid
from providers.models import check_model, provider_of


@pytest.mark.parametrize("environ", [{}, {"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": " "}])
def test_a_missing_key_names_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        check_model("anthropic/claude-sonnet-4-5", environ)
    assert str(caught.value) == (
        "no key for 'anthropic/claude-sonnet-4-5': set ANTHROPIC_API_KEY or "
        "ANTHROPIC_AUTH_TOKEN, or use --model scripted/<file>"
    )


@pytest.mark.parametrize(
    ("model", "environ"),
    [
        ("claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k"}),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_AUTH_TOKEN": "k"}),
        ("openai/gpt-4o", {"OPENAI_API_KEY": "k"}),
        ("gemini/gemini-2.5-pro", {"GOOGLE_API_KEY": "k"}),
        ("ollama/qwen3:4b", {}),
    ],
)
def test_a_key_is_enough_and_local_models_need_none(model: str, environ: dict[str, str]) -> None:
    check_model(model, environ)


def test_a_malformed_script_is_bad_input(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('{"content": "x"}')
    check_model(f"scripted/{script}", {})
    script.write_text("oops")
    with pytest.raises(OptionInvalid, match="line 1"):
        check_model(f"scripted/{script}", {})


@pytest.mark.parametrize("model", ["frobnicate/x", "foo"])
def test_an_unknown_provider_is_one_line(model: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"^no provider known for '{model}': write"):
        check_model(model, {})


def test_no_model_is_bad_input() -> None:
    with pytest.raises(OptionInvalid, match="no model named"):
        check_model(" ", {})


def test_an_uncommon_provider_is_looked_up_in_litellm() -> None:
    assert provider_of("replicate/meta/llama") == "replicate"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("deepseek/deepseek-reasoner", "cannot call tools, which agents must"),
        ("openai/text-embedding-3-small", "is for embedding, not for chat"),
    ],
)
def test_models_without_chat_or_tools_are_refused(model: str, told: str) -> None:
    with pytest.raises(OptionInvalid, match=told):
        check_model(model, {"DEEPSEEK_API_KEY": "k", "OPENAI_API_KEY": "k"})
