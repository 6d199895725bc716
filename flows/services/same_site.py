"""Refuse requests that a page of another site makes in a browser on this machine.

    if (reason := cross_site_reason(method, headers)) is not None:
        refuse(reason)

Browsers name the site of the page that makes a request; other programs do not.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from flows.config.settings import LOOPBACK_HOSTS

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_SAME_SITE = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site: not a browser, a page of ours, an address that the user typed."""


def cross_site_reason(
    method: str, headers: Mapping[str, str], *, any_host: bool = False
) -> str | None:
    """Return why the request is refused, or None if it is allowed. Header names are lower case.

    The Host must be a loopback name unless `any_host`: an attacker's name may resolve to this
    machine (DNS rebinding). A page of another site may link here, but change nothing.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not any_host and _host_name(host) not in LOOPBACK_HOSTS:
        return f"host {host!r} is not this machine"
    if origin is not None and origin.partition("://")[2] != host:
        return f"the request comes from a page of another site, {origin!r}"
    if method not in _SAFE_METHODS and headers.get("sec-fetch-site") not in _SAME_SITE:
        return "the request comes from a page of another site"
    return None


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # an unclosed bracket
        return None
