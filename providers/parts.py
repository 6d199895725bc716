"""Parts of a message that are no text: shown to a model where they stand in the request itself."""

import re

from providers.model_request import Json

_INLINE = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


def image(url: object) -> Json:
    """An image, if its bytes are in the URL: no other is fetched.

    Who fetched it would be this process or the provider, past the network rules of the sandbox.
    """
    head = _INLINE.match(url) if isinstance(url, str) else None
    if head is None or ":" in str(url)[head.end() :]:  # some look for an address anywhere in it
        return not_shown("image")
    return {"type": "image_url", "image_url": {"url": url}}


def not_shown(kind: object) -> Json:
    """What a model is told of a part that it cannot be given."""
    return {"type": "text", "text": f"[{kind} that this model cannot be shown]"}
