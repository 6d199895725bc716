"""Ports to serve at, by either version of IP."""

import socket
from errno import EINVAL


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes any free one.

    Raises:
        OSError: the address cannot be used.
    """
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise OSError(EINVAL, "that is no host's name") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # It may have the port of a server that was stopped a minute ago.
    return socket.create_server((host, port), family=family)


def http_url(host: str, port: int) -> str:
    """What a client calls it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
