"""The only way to the internet: a forward proxy on the host with an allow-list of host names.

It takes CONNECT for TLS, whose first message must name the same host, and plain GET and HEAD.
It resolves the names. It listens on no port: a forwarded port of the sandbox leads to
`EgressProxy.connect`, so without that port, or when the proxy fails, nothing gets out.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Self

from contracts.sandbox import Sandbox
from sandbox.java_trust import trust_in_java
from sandbox.proxy_request import (
    InvalidClientHello,
    InvalidRequest,
    ProxyRequest,
    read_request,
    receive,
    server_name,
)
from sandbox.relay import CHUNK, relay
from sandbox.routes import AllowList, RouteRefused
from sandbox.upstream import connect_upstream, upstream_proxy

MAX_CONNECTIONS = 512
"""More than a forwarded port takes at once: further ones wait there, and none is reset here."""
HEAD_S = 15.0
"""Seconds in which a client must send its request, and again its TLS ClientHello."""
CONNECT_S = 15.0
IDLE_S = 600.0
CA_FILE = "/var/tmp/harness-ca.pem"  # noqa: S108  inside; any user may write there
"""Path of the operator's certificates inside the sandbox."""
_DRAIN_S = 2.0
_UNRECOGNIZED_NAME = bytes((21, 3, 3, 0, 2, 2, 112))
"""The TLS alert `unrecognized_name`."""

_PROXIES = (
    "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
    "npm_config_proxy", "npm_config_https_proxy",
)  # fmt: skip
_CA_FILES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
    "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "CARGO_HTTP_CAINFO",
)  # fmt: skip
_JAVA_OPTIONS = ("MAVEN_OPTS", "GRADLE_OPTS")


@dataclass(frozen=True, kw_only=True)
class EgressEvent:
    """One allowed or refused connection, with the reason for a refusal."""

    kind: Literal["allowed", "refused"]
    host: str
    port: int
    reason: str = ""


OnEvent = Callable[[EgressEvent], None]


class EgressProxy:
    """A proxy to hosts on the allow-list, and to no others, until it is closed.

    `allow` holds names such as `example.org`, `*.example.org` or `mirror.example.org:8443`;
    without a port they stand for 80 and 443. A name must resolve to the public internet, or to
    one of `addresses` (`10.1.2.3`, `10.0.0.0/8`), which the operator allows. `trusted` are more
    names, of any address, that this machine's own clients use; they are reached through its
    `proxies`. `on_event` gets every decision, in threads of the proxy but one at a time.

    Raises:
        OptionInvalid: an entry of `allow` or `addresses` has another form.
    """

    def __init__(
        self,
        allow: Sequence[str],
        on_event: OnEvent,
        *,
        addresses: Sequence[str] = (),
        trusted: Sequence[str] = (),
        proxies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._routes = AllowList(allow, addresses, trusted=trusted)
        self._proxies = proxies
        self._on_event = on_event
        self._event_lock = threading.Lock()
        self._lock = threading.Lock()
        self._live: set[socket.socket] = set()
        self._places = threading.Semaphore(MAX_CONNECTIONS)
        self._closed = False

    def connect(self) -> socket.socket:
        """Return a connection to the proxy for one client.

        Raises:
            ConnectionRefusedError: it is closed, or has too many connections.
        """
        if self._closed or not self._places.acquire(blocking=False):
            raise ConnectionRefusedError("the egress proxy is closed, or has too many connections")
        ours, theirs = socket.socketpair()
        threading.Thread(
            target=self._serve, args=(theirs,), name="sandbox-egress", daemon=True
        ).start()
        return ours

    def try_host(self, host: str, port: int) -> str:
        """Return why this host cannot be connected to; "" if it can."""
        try:
            self._connect_server(host, port).close()
        except (RouteRefused, OSError) as error:
            return str(error)
        return ""

    def close(self) -> None:
        """End every connection and refuse new ones."""
        with self._lock:
            self._closed = True
            for end in self._live:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            with suppress(OSError), self._living(client):  # a client that hung up needs no answer
                self._answer(client)
        finally:
            self._places.release()

    def _answer(self, client: socket.socket) -> None:
        try:
            head = read_request(client, within_s=HEAD_S)
        except InvalidRequest as error:
            self._refuse(ProxyRequest("", 0), str(error))
            _respond(client, f"400 {error}")
            return
        try:
            self._routes.check(head.host, head.port)
            server = self._connect_server(head.host, head.port)
        except RouteRefused as error:
            self._refuse(head, str(error))
            _respond(client, f"403 No way to {_shown(head.host)}: {error}")
        except OSError as error:
            self._refuse(head, f"it cannot be reached: {error}")
            _respond(client, f"502 {_shown(head.host)} cannot be reached: {error}")
        else:
            with self._living(server):
                self._forward(client, server, head)

    def _connect_server(self, host: str, port: int) -> socket.socket:
        proxy = upstream_proxy(self._proxies, host, port)
        if proxy is not None and self._routes.is_trusted(host, port):
            return connect_upstream(proxy, host, port, timeout_s=CONNECT_S)
        # Connect to the addresses that were checked: a second look-up could give others.
        return _reach(self._routes.resolve(host, port), port)

    def _forward(self, client: socket.socket, server: socket.socket, head: ProxyRequest) -> None:
        if head.plain is None:
            self._tunnel(client, server, head)
        else:
            self._report(EgressEvent(kind="allowed", host=head.host, port=head.port))
            _fetch(client, server, head.plain)

    def _tunnel(self, client: socket.socket, server: socket.socket, head: ProxyRequest) -> None:
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            hello = _hello_for(head.host, client)
        except InvalidClientHello as error:
            self._refuse(head, str(error))
            client.sendall(_UNRECOGNIZED_NAME)
            _drain(client)
            return
        self._report(EgressEvent(kind="allowed", host=head.host, port=head.port))
        server.sendall(hello)
        relay(client, server, idle_s=IDLE_S)

    def _refuse(self, head: ProxyRequest, reason: str) -> None:
        event = EgressEvent(kind="refused", host=_shown(head.host), port=head.port, reason=reason)
        self._report(event)

    def _report(self, event: EgressEvent) -> None:
        with self._event_lock:
            self._on_event(event)

    @contextmanager
    def _living(self, end: socket.socket) -> Iterator[None]:
        """Register the socket for `close` while it is used; close it at the end."""
        with closing(end):
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError("the egress proxy is closed")
                self._live.add(end)
            try:
                yield
            finally:
                with self._lock:
                    self._live.discard(end)


def _reach(addresses: Sequence[str], port: int) -> socket.socket:
    """Return a connection to the first address that answers."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return socket.create_connection((address, port), timeout=CONNECT_S)
    return socket.create_connection((addresses[-1], port), timeout=CONNECT_S)


def _hello_for(host: str, client: socket.socket) -> bytes:
    """Return the client's ClientHello, which must name this host."""
    deadline, hello = time.monotonic() + HEAD_S, b""
    # Nothing is sent to the server before the name is known: a CDN serves many names per address.
    while (name := server_name(hello)) is None:
        hello += receive(client, deadline)
    if name != host:
        raise InvalidClientHello(f"its TLS asks for {_shown(name)}")
    return hello


def _fetch(client: socket.socket, server: socket.socket, request: bytes) -> None:
    """Send one request and return its answer; no further bytes of the client are sent."""
    server.settimeout(IDLE_S)
    client.settimeout(IDLE_S)
    server.sendall(request)
    while data := server.recv(CHUNK):
        client.sendall(data)
    _drain(client)


def _respond(client: socket.socket, status: str) -> None:
    line = "".join(char if " " <= char <= "~" else "?" for char in status)
    client.sendall(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    _drain(client)


def _drain(client: socket.socket) -> None:
    """Shut down our side and read until the client hangs up; else it would get a reset."""
    client.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline:
        receive(client, deadline)


def _shown(host: str) -> str:
    """Return a name from a possibly hostile client, safe for a log."""
    return "".join(char if "!" <= char <= "~" else "?" for char in host[:255])


def open_egress(
    sandbox: Sandbox, egress: EgressProxy, *, certificates: bytes = b""
) -> dict[str, str]:
    """Forward a port of the sandbox to the proxy; return the variables that commands need.

    `certificates` are trusted inside instead of the image's: for networks that intercept TLS with
    their own certificate.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    port = sandbox.forward(0, egress.connect)
    if not certificates:
        return egress_env(port)
    sandbox.write_file(CA_FILE, certificates)
    return egress_env(port, ca_file=CA_FILE, for_java=trust_in_java(sandbox, certificates))


def egress_env(port: int, *, ca_file: str | None = None, for_java: str = "") -> dict[str, str]:
    """Return the variables that make clients of package indexes, git and curl use this port."""
    proxy, here = f"http://127.0.0.1:{port}", "localhost,127.0.0.1"
    env = dict.fromkeys(_PROXIES, proxy) | {"NO_PROXY": here, "no_proxy": here}
    java = [f"-D{s}.proxyHost=127.0.0.1 -D{s}.proxyPort={port}" for s in ("http", "https")]
    env |= dict.fromkeys(_JAVA_OPTIONS, " ".join((*java, for_java)).rstrip())
    return env | ({} if ca_file is None else dict.fromkeys(_CA_FILES, ca_file))
