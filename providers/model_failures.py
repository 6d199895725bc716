"""A provider's failure: whether to try again, and one line about it."""

import re

from contracts.errors import ModelRefused, ModelUnavailable

CONTEXT_OVERFLOW = "context_window"
"""Stop reason of the empty reply to a conversation longer than the model's context."""

_MAX_DELAY_S = 60.0
_SECRET = re.compile(r"(?i)\b(?:sk|pk|rk|gsk|xai|AIza)[-_A-Za-z0-9*.]{6,}|bearer\s+\S+")
_LITELLM_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w+Error: )*(?:\w+Exception - )?")
_KEY = "the key for {model!r} was refused: check it, and that it may use this model"
_REFUSED = "{model!r} refused the request as malformed ({line})"
_NO_ANSWER = "{model!r} gives no usable answer{after}: is its address right? ({line})"
_MESSAGES = {
    401: _KEY,
    403: _KEY,
    402: "the account behind {model!r} has no credit left ({line})",
    404: "the provider knows no model {model!r}: check its name ({line})",
    408: "{model!r} did not answer in time{after}: try again or use another model",
    429: "{model!r} is rate limited{after}: wait, or use another model ({line})",
}


def provider_error(failure: Exception) -> Exception:
    """Return the provider's own error, which litellm wraps when it happens in a stream."""
    inner = getattr(failure, "original_exception", None)
    return inner if isinstance(inner, Exception) and hasattr(inner, "status_code") else failure


def max_retries(failure: Exception) -> int:
    """Return how often to repeat a request that failed in this way."""
    match _status(failure):
        case 429 | 503 | 529:
            return 5
        case status if status >= 500 or status in (0, 408):
            return 2
        case _:
            return 0


def retry_delay_s(failure: Exception, attempt: int) -> float:
    """Return the delay that the provider asks for, else 1, 2, 4, 8, 16 seconds."""
    headers = getattr(failure, "litellm_response_headers", None) or {}
    try:
        return min(_MAX_DELAY_S, max(0.0, float(headers.get("retry-after", ""))))
    except ValueError:
        return min(_MAX_DELAY_S, 2.0 ** (attempt - 1))


def unavailable_error(model: str, failure: Exception, *, attempts: int) -> ModelUnavailable:
    """Return the error to raise after the last attempt. Its message never holds a key."""
    status = _status(failure)
    bad_request = 400 <= status < 500
    template = _MESSAGES.get(status, _REFUSED if bad_request else _NO_ANSWER)
    after = f" after {attempts} attempts" if attempts > 1 else ""
    message = template.format(model=model, after=after, line=_first_line(failure))
    refused = bad_request and status not in _MESSAGES
    return ModelRefused(message) if refused else ModelUnavailable(message)


def describe_interruption(model: str, failure: Exception) -> str:
    """Return one line about an answer that ended in the middle. It never holds a key."""
    line = _first_line(failure)
    return f"the answer of {model!r} broke off: try again, or use another model ({line})"


def _status(failure: Exception) -> int:
    """Return the HTTP status that litellm found or chose; 0 when there is none."""
    if "timed out" in str(failure).lower():
        return 408
    status = getattr(failure, "status_code", 0)
    return status if isinstance(status, int) else 0


def _first_line(failure: Exception) -> str:
    """Return the provider's first line, at most 200 characters, with keys replaced."""
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return _SECRET.sub("***", _LITELLM_PREFIX.sub("", lines[0]))[:200]
