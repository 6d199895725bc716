"""The one door to litellm: imported late, made quiet, and taught our scripted models."""

import gc
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from types import ModuleType
from typing import cast

from contracts.chat import ChatRequest, Message, Reply
from providers.scripted import SCRIPTED_PREFIX, reply_for
from providers.wire_openai import message_to_openai


@cache
def litellm() -> ModuleType:
    """The litellm module, ready to call. The first call takes 3 to 4 seconds."""
    # Without the first, importing waits for a price list from the network; without the
    # second it loads any `.env` file that it finds above its own folder; without the third,
    # a thread of its logging takes as much time as the answer did, for loggers we have not.
    # The fourth keeps it from fetching what a message only names: `parts.py` lets none through.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    os.environ["LOGGING_EXECUTOR_MAX_PENDING_TASKS"] = "0"
    os.environ["MAX_IMAGE_URL_DOWNLOAD_SIZE_MB"] = "0"
    import litellm as module

    module.suppress_debug_info = True
    module.drop_params = True
    module.disable_streaming_logging = True  # a task for a thread pool, with every chunk
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _add_scripted(module)
    gc.collect()
    gc.freeze()  # it never goes away, and searching it for garbage stops all threads for 0.2 s
    return cast(ModuleType, module)  # it ships no usable types, so mypy sees Any


def load_litellm(wait_s: float) -> bool:
    """Begin to import litellm in a thread, once; whether it is there after `wait_s` at most.

    Raises:
        ImportError: it cannot be imported.
    """
    begun = _import()
    wait((begun,), wait_s)
    return begun.done() and bool(begun.result())


@cache
def _import() -> Future[ModuleType]:
    threads = ThreadPoolExecutor(1, thread_name_prefix="import-litellm")
    begun = threads.submit(litellm)
    threads.shutdown(wait=False)
    return begun


def _add_scripted(module: ModuleType) -> None:
    """Make `litellm.completion(model="scripted/<file>")` work, for callers inside litellm."""
    from litellm import CustomLLM, ModelResponse

    class ScriptedLLM(CustomLLM):  # type: ignore[misc]  # litellm ships no usable types
        def completion(self, model: str, messages: list[dict[str, object]], **_: object) -> object:
            said = [Message(role="assistant") for m in messages if m["role"] == "assistant"]
            reply = reply_for(ChatRequest(model=SCRIPTED_PREFIX + model, messages=said))
            return ModelResponse(**_response(model, reply))

        async def acompletion(
            self, model: str, messages: list[dict[str, object]], **_: object
        ) -> object:
            return self.completion(model, messages)

    module.custom_provider_map.append({"provider": "scripted", "custom_handler": ScriptedLLM()})
    module.utils.custom_llm_setup()


def _response(model: str, reply: Reply) -> dict[str, object]:
    usage = reply.usage
    return {
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message_to_openai(reply.message),
                "finish_reason": reply.stop_reason,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input + usage.cache_read + usage.cache_write,
            "completion_tokens": usage.output,
            "total_tokens": usage.total,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read,
                "cache_creation_tokens": usage.cache_write,
            },
        },
    }
