"""Credentials in the URLs of repositories."""

import re

_CREDENTIALS = re.compile(r"(\w://)[^/\s]+@")


def redact_url(text: str) -> str:
    """Return the text with user and password replaced in each URL."""
    return _CREDENTIALS.sub(r"\1***@", text)
