"""Who asks a server on this machine: somebody here, or a page of another site in a browser here.

    if (why := stranger(method, headers)) is not None:
        refuse(why)

Browsers name the site that a page came from; programs that are no browser name none.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from flows.config.settings import LOOPBACK_HOSTS

_READING = ("GET", "HEAD", "OPTIONS")

_OURS = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site: a program's, our own page's, a person's who typed the address."""


def cross_site_reason(
    method: str, headers: Mapping[str, str], *, any_host: bool = False
) -> str | None:
    """Why this request is a stranger's; None for who may ask. Names are in small letters.

    A name elsewhere may point here (DNS rebinding), so only names that no other machine reaches
    are served, unless `any_name`. A page elsewhere may link here, and do nothing else.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not any_host and _name(host) not in LOOPBACK_HOSTS:
        return f"host {host!r} is not this machine"
    if origin is not None and origin.partition("://")[2] != host:
        return f"this was asked for by another site, {origin!r}"
    if method not in _READING and headers.get("sec-fetch-site") not in _OURS:
        return "this was asked for by another site"
    return None


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # a bracket that is never closed
        return None
