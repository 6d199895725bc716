"""Token counts of providers as our own `Usage`."""

from collections.abc import Mapping

from contracts.chat import Usage
from contracts.json import as_mapping


def usage_from(raw: Mapping[str, object]) -> Usage:
    """Read counts in OpenAI's, Anthropic's or our own form; a missing or invalid count is 0.

    OpenAI's `prompt_tokens` includes tokens from the cache, Anthropic's `input_tokens` does
    not. `Usage.input` never does.
    """
    if "prompt_tokens" in raw:
        return _from_openai(raw)
    if "input_tokens" in raw:
        return Usage(
            input=_count(raw, "input_tokens"),
            output=_count(raw, "output_tokens"),
            cache_read=_count(raw, "cache_read_input_tokens"),
            cache_write=_count(raw, "cache_creation_input_tokens"),
        )
    cost = raw.get("cost_usd")
    return Usage(
        input=_count(raw, "input"),
        output=_count(raw, "output"),
        cache_read=_count(raw, "cache_read"),
        cache_write=_count(raw, "cache_write"),
        cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _from_openai(raw: Mapping[str, object]) -> Usage:
    details = as_mapping(raw.get("prompt_tokens_details"))
    read = _count(details, "cached_tokens") or _count(raw, "cache_read_input_tokens")
    write = (
        _count(details, "cache_creation_tokens")
        or _count(details, "cache_write_tokens")
        or _count(raw, "cache_creation_input_tokens")
    )
    return Usage(
        input=max(0, _count(raw, "prompt_tokens") - read - write),
        output=_count(raw, "completion_tokens"),
        cache_read=read,
        cache_write=write,
    )


def _count(raw: Mapping[str, object], name: str) -> int:
    value = raw.get(name)
    return max(0, value) if isinstance(value, int) else 0
