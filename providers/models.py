"""Which models can be called from here, told before a run starts."""

from collections.abc import Mapping
from types import MappingProxyType

from contracts.errors import ModelUnavailable, OptionInvalid
from providers.litellm_door import litellm
from providers.script import read_script
from providers.scripted import is_scripted, script_path

LOCAL = frozenset({"scripted", "ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm"})
"""Providers that run on one's own machines: no key needed, nothing to pay."""

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        "cerebras": ("CEREBRAS_API_KEY",),
        "cohere": ("COHERE_API_KEY",),
        "deepseek": ("DEEPSEEK_API_KEY",),
        "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
        "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "groq": ("GROQ_API_KEY",),
        "mistral": ("MISTRAL_API_KEY",),
        "moonshot": ("MOONSHOT_API_KEY",),
        "openai": ("OPENAI_API_KEY",),
        "openrouter": ("OPENROUTER_API_KEY",),
        "together_ai": ("TOGETHERAI_API_KEY",),
        "xai": ("XAI_API_KEY",),
    }
)
"""Provider to the variables that can hold its key; one of them is enough."""

_FAMILIES = (("claude-", "anthropic"), ("gpt-", "openai"), ("o3", "openai"), ("o4", "openai"))


def check_model(model: str, environ: Mapping[str, str]) -> None:
    """Refuse a model that cannot answer; cheap unless the provider is an uncommon one.

    Nothing is called: a key that the provider refuses shows at the first call only.

    Raises:
        OptionInvalid: no model is named, or the scripted file is missing or malformed.
        ModelUnavailable: no key for it in `environ`, or no such provider.
    """
    if not model.strip():
        raise OptionInvalid("no model named: say --model provider/model or --model scripted/<file>")
    if is_scripted(model):
        read_script(script_path(model))
        return
    provider = provider_of(model)
    keys = KEYS.get(provider, ())
    if keys and not any(environ.get(key, "").strip() for key in keys):
        raise ModelUnavailable(
            f"no key for {model!r}: set {' or '.join(keys)}, or use --model scripted/<file>"
        )


def provider_of(model: str) -> str:
    """The provider that serves `model`; imports litellm when the name does not tell.

    Raises:
        ModelUnavailable: no provider is known for it.
    """
    prefix, slash, _ = model.partition("/")
    if slash and (prefix in KEYS or prefix in LOCAL):
        return prefix
    for start, provider in _FAMILIES:
        if not slash and model.startswith(start):
            return provider
    module = litellm()
    try:
        return str(module.get_llm_provider(model)[1])
    except module.exceptions.BadRequestError:
        pass  # falls through so that litellm's page of advice is not chained to our one line
    raise ModelUnavailable(
        f"no provider known for {model!r}: write provider/model, such as "
        "'anthropic/claude-sonnet-4-5', 'ollama/qwen3:4b' or 'scripted/<file>'"
    )
