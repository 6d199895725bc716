"""Checks before a run starts whether its model can be called."""

from collections.abc import Mapping
from types import MappingProxyType

from contracts.errors import ModelUnavailable, OptionInvalid
from providers.litellm_setup import litellm
from providers.scripted import is_scripted, read_script, script_path

LOCAL_PROVIDERS = frozenset(
    {"scripted", "ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm"}
)
"""Providers on the user's own machines: they need no key and cost nothing."""

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
"""Provider to the environment variables that may hold its key; one of them is enough."""

_MODEL_FAMILIES = (("claude-", "anthropic"), ("gpt-", "openai"), ("o3", "openai"), ("o4", "openai"))
_CHAT_MODES = ("chat", "completion", "responses")


def check_model(model: str, environ: Mapping[str, str]) -> None:
    """Raise if the model is known not to work for an agent. Nothing is sent to the provider.

    Raises:
        OptionInvalid: as `check_key`, or the model does not chat, or cannot call tools.
        ModelUnavailable: as `check_key`, or the provider is unknown.
    """
    check_key(model, environ)
    if provider_of(model) in LOCAL_PROVIDERS:
        return
    info = model_info(model)
    if info.get("mode", "chat") not in _CHAT_MODES:
        raise OptionInvalid(f"{model!r} is for {info['mode']}, not for chat: name another model")
    if info.get("supports_function_calling") is False:
        raise OptionInvalid(f"{model!r} cannot call tools, which agents must: name another model")


def check_key(model: str, environ: Mapping[str, str]) -> None:
    """Raise if the model has no key or no script. Does not import litellm.

    Raises:
        OptionInvalid: no model is named, or the script is missing or malformed.
        ModelUnavailable: `environ` has no key for the model.
    """
    if not model.strip():
        raise OptionInvalid("no model named: say --model provider/model or --model scripted/<file>")
    if is_scripted(model):
        read_script(script_path(model))
        return
    variables = KEY_VARIABLES.get(_provider_in_name(model) or "", ())
    if variables and not any(environ.get(name, "").strip() for name in variables):
        names = " or ".join(variables)
        raise ModelUnavailable(f"no key for {model!r}: set {names}, or use --model scripted/<file>")


def provider_of(model: str) -> str:
    """Return the provider that serves a model; imports litellm unless the name says it.

    Raises:
        ModelUnavailable: the provider is unknown.
    """
    provider = _provider_in_name(model)
    if provider is not None:
        return provider
    module = litellm()
    try:
        return str(module.get_llm_provider(model)[1])
    except module.exceptions.BadRequestError:
        pass  # our error is raised outside, so that litellm's page of advice is not chained to it
    raise ModelUnavailable(
        f"no provider known for {model!r}: write provider/model, such as "
        "'anthropic/claude-sonnet-4-5', 'ollama/qwen3:4b' or 'scripted/<file>'"
    )


def model_info(model: str) -> Mapping[str, object]:
    """Return litellm's entry for a model; empty if it has none."""
    entries: Mapping[str, Mapping[str, object]] = litellm().model_cost
    return entries.get(model) or entries.get(model.partition("/")[2]) or {}


def _provider_in_name(model: str) -> str | None:
    prefix, slash, _ = model.partition("/")
    if slash:
        return prefix if prefix in KEY_VARIABLES or prefix in LOCAL_PROVIDERS else None
    return next((provider for start, provider in _MODEL_FAMILIES if model.startswith(start)), None)
