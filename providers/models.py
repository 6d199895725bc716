"""Which models can be called from here, told before a run starts."""

from collections.abc import Mapping
from types import MappingProxyType

from contracts.errors import ModelUnavailable, OptionInvalid
from providers.litellm_setup import litellm
from providers.script import read_script
from providers.scripted import is_scripted, script_path

LOCAL_PROVIDERS = frozenset(
    {"scripted", "ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm"}
)
"""Providers that run on one's own machines: no key needed, nothing to pay."""

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
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


_CHAT = ("chat", "completion", "responses")


def check_model(model: str, environ: Mapping[str, str]) -> None:
    """Refuse a model that cannot do an agent's work, as far as that is known here.

    Nothing is called: a key that the provider refuses shows at the first call only.

    Raises:
        OptionInvalid: as `check_key`, or it is known to be no chat model or to call no tools.
        ModelUnavailable: as `check_key`, or no such provider.
    """
    check_key(model, environ)
    if provider_of(model) in LOCAL_PROVIDERS:
        return
    facts = model_info(model)
    if facts.get("mode", "chat") not in _CHAT:
        raise OptionInvalid(f"{model!r} is for {facts['mode']}, not for chat: name another model")
    if facts.get("supports_function_calling") is False:
        raise OptionInvalid(f"{model!r} cannot call tools, which agents must: name another model")


def check_key(model: str, environ: Mapping[str, str]) -> None:
    """The part of `check_model` that does not import litellm.

    Raises:
        OptionInvalid: no model is named, or the scripted file is missing or malformed.
        ModelUnavailable: no key for it in `environ`.
    """
    if not model.strip():
        raise OptionInvalid("no model named: say --model provider/model or --model scripted/<file>")
    if is_scripted(model):
        read_script(script_path(model))
        return
    keys = KEY_VARIABLES.get(_plain_provider(model) or "", ())
    if keys and not any(environ.get(key, "").strip() for key in keys):
        raise ModelUnavailable(
            f"no key for {model!r}: set {' or '.join(keys)}, or use --model scripted/<file>"
        )


def provider_of(model: str) -> str:
    """The provider that serves `model`; imports litellm when the name does not tell.

    Raises:
        ModelUnavailable: no provider is known for it.
    """
    plain = _plain_provider(model)
    if plain is not None:
        return plain
    module = litellm()
    try:
        return str(module.get_llm_provider(model)[1])
    except module.exceptions.BadRequestError:
        pass  # falls through so that litellm's page of advice is not chained to our one line
    raise ModelUnavailable(
        f"no provider known for {model!r}: write provider/model, such as "
        "'anthropic/claude-sonnet-4-5', 'ollama/qwen3:4b' or 'scripted/<file>'"
    )


def model_info(model: str) -> Mapping[str, object]:
    """What litellm's map says of the model; nothing when it does not know it."""
    known: Mapping[str, Mapping[str, object]] = litellm().model_cost
    return known.get(model) or known.get(model.partition("/")[2]) or {}


def _plain_provider(model: str) -> str | None:
    """The provider, where the name alone tells it."""
    prefix, slash, _ = model.partition("/")
    if slash and (prefix in KEY_VARIABLES or prefix in LOCAL_PROVIDERS):
        return prefix
    families = (provider for start, provider in _FAMILIES if model.startswith(start))
    return None if slash else next(families, None)
