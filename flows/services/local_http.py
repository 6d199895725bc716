"""HTTP servers of this machine: their ports, their health, and requests that they refuse."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from urllib.parse import urlsplit

from contracts.errors import Unavailable
from flows.config.settings import LOOPBACK_HOSTS

_LISTEN = "0A"
"""The state of a listening socket in the kernel's tables."""

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_REQUIRED = (_TABLES[0], Path("/proc/thread-self/children"))

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_SAME_SITE = (None, "same-origin", "none")
"""Values of Sec-Fetch-Site: not a browser, a page of ours, an address that the user typed."""


def listen_on(host: str, port: int) -> socket.socket:
    """Return a listening socket, for IPv4 or IPv6; port 0 takes any free port.

    Raises:
        OSError: the address cannot be used.
    """
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise OSError(EINVAL, "not a host name") from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Unlike a plain bind, this may take the port of a server that was stopped a minute ago.
    return socket.create_server((host, port), family=family)


def free_port(preferred: int = 0, host: str = "127.0.0.1") -> int:
    """Return the preferred port of `host` if it is free, else any free port.

    Raises:
        Unavailable: no port is free, or `host` is not an address of this machine.
    """
    try:
        with suppress(OSError), listen_on(host, preferred) as probe:
            return int(probe.getsockname()[1])
        with listen_on(host, 0) as probe:
            return int(probe.getsockname()[1])
    except OSError as error:
        raise Unavailable(f"nothing can listen on {host!r}: {error.strerror}") from error


def http_url(host: str, port: int) -> str:
    """Return the URL of a server there; an IPv6 address is put in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_healthy(url: str, *, accept_refusal: bool = False) -> bool:
    """Return True if a GET succeeds; with `accept_refusal` also if the answer is a 4xx."""
    import httpx

    try:
        # Without `verify`, httpx loads certificates, which a server on this machine never needs.
        response = httpx.get(url, timeout=5.0, verify=url.startswith("https:"))
    except httpx.HTTPError:
        return False
    return not response.is_server_error if accept_refusal else response.is_success


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
    # Sandboxed frames send `Origin: null`, which is no host and so refused too.
    if origin is not None and origin.partition("://")[2] != host:
        return f"the request comes from a page of another site, {origin!r}"
    if method not in _SAFE_METHODS and headers.get("sec-fetch-site") not in _SAME_SITE:
        return "the request comes from a page of another site"
    return None


def owns_port(pid: int, url: str) -> bool:
    """Return True if `pid` or one of its descendants listens on the port of this URL.

    Another home, or another user, may have taken a free port before the process could. True also
    if it cannot be known: the URL has no port, or the system has no such `/proc` files.
    """
    port = urlsplit(url).port
    if port is None or not all(path.exists() for path in _REQUIRED):
        return True
    # /proc/net names the socket by its inode; only a process that has it open serves the port.
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    return any(not sockets.isdisjoint(_open_files(each)) for each in _process_tree(pid))


def _listening_inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError):  # no IPv6 here
            for line in table.read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # the process has ended
        for descriptor in Path("/proc", str(pid), "fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path("/proc", str(pid), "task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _process_tree(int(child))


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # an unclosed bracket
        return None
