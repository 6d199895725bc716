"""A proxy of this machine's network, through which the egress proxy reaches package indexes."""

import socket
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

_MAX_ANSWER = 16 * 1024


def upstream_proxy(proxies: Mapping[str, str], host: str, port: int) -> SplitResult | None:
    """Return the proxy for this host from `urllib.request.getproxies()`, or None."""
    url = proxies.get("https" if port != 80 else "http") or proxies.get("all", "")
    if not url or _is_direct(host, proxies.get("no", "")):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


def _is_direct(host: str, no_proxy: str) -> bool:
    """Return whether the variable `no_proxy` names this host or a domain above it."""
    names = [name.strip().lstrip("*").lstrip(".").lower() for name in no_proxy.split(",")]
    above = [f".{name}" for name in names if name]
    return no_proxy.strip() == "*" or f".{host}".endswith(tuple(above))


def connect_upstream(
    proxy: SplitResult, host: str, port: int, *, timeout_s: float
) -> socket.socket:
    """Return a connection to the host through an HTTP proxy. Its password stays on this machine.

    Raises:
        OSError: the proxy cannot be reached, is no HTTP proxy, or refuses.
    """
    if proxy.scheme != "http" or not proxy.hostname:
        raise OSError(f"this machine's proxy is no http:// proxy but {proxy.scheme}://")
    server = socket.create_connection((proxy.hostname, proxy.port or 80), timeout=timeout_s)
    try:
        server.sendall(_request(proxy, f"{host}:{port}"))
        status = _answer(server).split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            raise OSError(f"this machine's proxy answered {status[:80]!r}")
    except BaseException:
        server.close()
        raise
    return server


def _request(proxy: SplitResult, target: str) -> bytes:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(secret.encode()).decode()}")
    return "\r\n".join((*lines, "", "")).encode()


def _answer(server: socket.socket) -> bytes:
    """Return the head of the proxy's answer, and not a byte of what follows."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = server.recv(1)
        if not byte or len(head) > _MAX_ANSWER:
            raise OSError("this machine's proxy gave no HTTP answer")
        head += byte
    return head
