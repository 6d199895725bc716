"""The only import of litellm: late, because it takes 3 to 4 seconds, and configured."""

import gc
import logging
import os
from functools import cache
from types import ModuleType
from typing import cast


@cache
def litellm() -> ModuleType:
    """Return the litellm module, ready to call. The first call imports it."""
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
