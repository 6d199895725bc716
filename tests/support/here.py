"""Servers of this machine, asked over HTTP by tests that wait for what one will say."""

import ssl
from functools import cache

import httpx

from tests.support.waiting import LONG_S


@cache
def here() -> httpx.Client:
    """A client that read no certificates: `httpx.get` does each time, which takes 25 ms."""
    return httpx.Client(
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx.Limits(max_keepalive_connections=0),  # servers end and begin meanwhile
        timeout=LONG_S,
    )
