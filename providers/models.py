"""litellm: its only import, checks whether a model can be called, and prices of tokens."""

import gc
import logging
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from types import MappingProxyType, ModuleType
from typing import cast

from contracts.chat import Usage, model_names
from contracts.errors import ModelUnavailable, OptionInvalid
from providers.gateway_api import NO_PRICES, Price, Prices
from providers.scripted import is_scripted, read_script, script_path


@cache
def litellm() -> ModuleType:
    """Return the litellm module, ready to call. The first call imports it in 3 to 4 seconds."""
    # litellm reads these while it is imported. In this order: no download of a price list;
    # no `.env` file read from a folder above; no thread for loggers, which takes as much CPU
    # as the answer; no download of an image that a message names by URL.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    os.environ["LOGGING_EXECUTOR_MAX_PENDING_TASKS"] = "0"
    os.environ["MAX_IMAGE_URL_DOWNLOAD_SIZE_MB"] = "0"
    import litellm as module

    module.suppress_debug_info = True
    module.drop_params = True
    module.disable_streaming_logging = True  # else a thread pool gets a task for each chunk
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()  # a full collection of litellm's objects stops all threads for 0.2 s
    return cast(ModuleType, module)  # litellm ships no usable types, so mypy sees Any


@cache
def litellm_import() -> Future[ModuleType]:
    """Begin to import litellm in a thread, so that requests need not wait for it later."""
    return ThreadPoolExecutor(1, thread_name_prefix="litellm").submit(litellm)


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


def cost_usd(model: str, usage: Usage, prices: Prices = NO_PRICES) -> float:
    """Return the cost of `usage` in dollars; 0.0 for a model without a price."""
    if model in prices:
        return prices[model].cost_usd(usage)
    if is_local(model) or not has_price(model):
        return 0.0
    import openai  # litellm derives all errors of providers from its root

    module = litellm()
    try:
        prompt, completion = module.cost_per_token(
            model=model,
            prompt_tokens=usage.input + usage.cache_read + usage.cache_write,
            completion_tokens=usage.output,
            cache_read_input_tokens=usage.cache_read,
            cache_creation_input_tokens=usage.cache_write,
        )
    except (module.exceptions.ModelNotMappedError, openai.OpenAIError, ValueError):
        # litellm cannot find some models of its own list, such as most of Bedrock's.
        return _list_price(model_info(model)).cost_usd(usage)
    return float(prompt + completion)


def has_price(model: str, prices: Prices = NO_PRICES) -> bool:
    """Return whether the model's price is known, so that a budget in dollars can stop it."""
    if model in prices or is_local(model):
        return True
    info = model_info(model)
    if "tiered_pricing" not in info and info.get("input_cost_per_token") is None:
        return False
    # The entry may be found by the bare name and belong to another provider with other prices.
    same_provider = str(info.get("litellm_provider")).startswith(model.partition("/")[0])
    return model in litellm().model_cost or same_provider


def max_output_tokens(model: str) -> int | None:
    """Return the longest answer that the model can give; None if unknown."""
    maximum = None if is_local(model) else model_info(model).get("max_output_tokens")
    return maximum if isinstance(maximum, int) else None


def context_tokens(model: str) -> int | None:
    """Return the tokens that the model can hold; None if unknown."""
    maximum = None if is_local(model) else model_info(model).get("max_input_tokens")
    return maximum if isinstance(maximum, int) else None


def is_local(model: str) -> bool:
    """Return True for a model that costs nothing: of this machine, or scripted."""
    return model.partition("/")[0] in LOCAL_PROVIDERS


def needs_litellm(models: str) -> bool:
    """Return True if the gateway needs litellm to check, price or call one of the models."""
    return not all(map(is_local, model_names(models)))


def _list_price(info: Mapping[str, object]) -> Price:
    """Return the price in litellm's list, without higher prices for long prompts."""

    def per_million(name: str, default: float = 0.0) -> float:
        price = info.get(name)
        return price * 1_000_000 if isinstance(price, int | float) else default

    fresh = per_million("input_cost_per_token")
    return Price(
        input=fresh,
        output=per_million("output_cost_per_token"),
        cache_read=per_million("cache_read_input_token_cost", fresh),
        cache_write=per_million("cache_creation_input_token_cost", fresh),
    )
