"""Why a model did not answer, in one line, and whether to ask again."""

import re

from contracts.errors import ModelRefused, ModelUnavailable

CONTEXT_OVERFLOW = "context_window"
"""Stop reason of the empty reply to a conversation that the model cannot hold."""

_MOST_WAIT_S = 60.0
_SECRET = re.compile(r"(?i)\b(?:sk|pk|rk|gsk|xai|AIza)[-_A-Za-z0-9*.]{6,}|bearer\s+\S+")
_WRAPPING = re.compile(r"^(?:litellm\.)?(?:\w+Error: )*(?:\w+Exception - )?")
_KEY = "the key for {model!r} was refused: check it, and that it may use this model"
_REFUSED = "{model!r} refused the request as malformed ({said})"
_NO_ANSWER = "{model!r} gives no usable answer{after}: is its address right? ({said})"
_LINES = {
    401: _KEY,
    403: _KEY,
    402: "the account behind {model!r} has no credit left ({said})",
    404: "the provider knows no model {model!r}: check its name ({said})",
    408: "{model!r} did not answer in time{after}: try again or use another model",
    429: "{model!r} is rate limited{after}: wait, or use another model ({said})",
}


def provider_error(failure: Exception) -> Exception:
    """The provider's own failure, out of the one that litellm puts around it in a stream."""
    inner = getattr(failure, "original_exception", None)
    return inner if isinstance(inner, Exception) and hasattr(inner, "status_code") else failure


def max_retries(failure: Exception) -> int:
    """How many more times to ask after this failure."""
    match _status(failure):
        case 429 | 503 | 529:
            return 5
        case status if status >= 500 or status in (0, 408):
            return 2
        case _:
            return 0


def retry_delay_s(failure: Exception, attempt: int) -> float:
    """Seconds until the next attempt: what the provider asks for, else 1, 2, 4, 8, 16."""
    headers = getattr(failure, "litellm_response_headers", None) or {}
    try:
        return min(_MOST_WAIT_S, max(0.0, float(headers.get("retry-after", ""))))
    except ValueError:
        return min(_MOST_WAIT_S, 2.0 ** (attempt - 1))


def unavailable_error(model: str, failure: Exception, *, attempts: int) -> ModelUnavailable:
    """The error to raise when nobody will ask again."""
    told = describe_failure(model, failure, attempts=attempts)
    status = _status(failure)
    ours = 400 <= status < 500 and status not in _LINES
    return ModelRefused(told) if ours else ModelUnavailable(told)


def describe_failure(model: str, failure: Exception, *, attempts: int) -> str:
    """One line for a person: what happened and what to do. Never holds a key."""
    status = _status(failure)
    line = _LINES.get(status, _REFUSED if 400 <= status < 500 else _NO_ANSWER)
    after = f" after {attempts} attempts" if attempts > 1 else ""
    return line.format(model=model, after=after, said=_said(failure))


def describe_interruption(model: str, failure: Exception) -> str:
    """The same for an answer that began and did not end."""
    return f"the answer of {model!r} broke off: try again, or use another model ({_said(failure)})"


def _status(failure: Exception) -> int:
    """The HTTP status that litellm found or chose; 0 when there is none."""
    if "timed out" in str(failure).lower():
        return 408
    status = getattr(failure, "status_code", 0)
    return status if isinstance(status, int) else 0


def _said(failure: Exception) -> str:
    """The provider's own first line, short and with anything like a key blanked."""
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return _SECRET.sub("***", _WRAPPING.sub("", lines[0]))[:200]
