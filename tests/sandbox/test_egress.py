"""The way out: names on the list and no others, whatever a client says."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import OptionInvalid
from sandbox import egress as egress_module
from sandbox.egress import EgressEvent, EgressProxy
from sandbox.proxy_request import InvalidRequest, parse_request
from tests.support.client_hello import hello_for
from tests.support.self_signed import self_signed
from tests.support.waiting import LONG_S, wait_until

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback; gives its port."""
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with closing(client), suppress(OSError):
                        answer(client)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def silent(_: socket.socket) -> None:
    raise AssertionError("nothing may reach the server")


class Out:
    """A proxy that may reach `localhost` at one port, and what it decided."""

    def __init__(self, port: int, *addresses: str) -> None:
        self.events: list[EgressEvent] = []
        allow = (f"localhost:{port}",)
        self.egress = EgressProxy(allow, self.events.append, addresses=addresses or (HERE,))

    def ask(self, request: bytes) -> bytes:
        """All that the proxy says to these bytes."""
        with closing(self.egress.connect()) as client:
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def tunnel(self, port: int) -> socket.socket:
        client = self.egress.connect()
        client.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        return client


@pytest.mark.parametrize("rule", ["*", "", "10.0.0.1", "https://x.org", "a.*.org", "x.org:0"])
def test_an_invalid_rule_is_refused(rule: str) -> None:
    with pytest.raises(OptionInvalid, match="no host to allow"):
        EgressProxy((rule,), print)


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(OptionInvalid, match="no address"):
        EgressProxy((), print, addresses=("mirror.example.org",))


def test_a_name_that_leads_back_to_this_machine_is_refused() -> None:
    events: list[EgressEvent] = []
    allow = ("localhost:8080",)
    with EgressProxy(allow, events.append) as egress, closing(egress.connect()) as client:
        client.sendall(b"CONNECT localhost:8080 HTTP/1.1\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 403 ")
    assert [(event.kind, event.host) for event in events] == [("refused", "localhost")]
    assert "not on the public internet" in events[0].reason


@pytest.mark.parametrize(
    ("request_line", "status", "reason"),
    [
        ("CONNECT evil.test:443 HTTP/1.1", b"403", "not on the allow-list"),
        ("CONNECT 127.0.0.1:{port} HTTP/1.1", b"403", "not a host name"),
        ("CONNECT localhost:22 HTTP/1.1", b"403", "not on the allow-list"),
        ("CONNECT localhost:99999 HTTP/1.1", b"400", "no port"),
        ("CONNECT localhost HTTP/1.1", b"400", "are allowed"),
        ("CONNECT user@localhost:{port} HTTP/1.1", b"400", "are allowed"),
        ("GET http://evil.test/ HTTP/1.1", b"403", "not on the allow-list"),
        ("GET http://localhost@evil.test/ HTTP/1.1", b"400", "are allowed"),
        ("GET / HTTP/1.1", b"400", "are allowed"),
        ("POST http://localhost:{port}/ HTTP/1.1", b"400", "are allowed"),
        ("GET http://localhost:{port}/\x00 HTTP/1.1", b"400", "are allowed"),
        ("GET http://localhost:{port}/ HTTP/1.1\r\nX: \x00", b"400", "malformed"),
        ("GET http://localhost:{port}/ HTTP/1.1\r\nContent-Length: 5", b"400", "no body"),
        ("GET http://localhost:{port}/ HTTP/1.1\r\n folded: x", b"400", "malformed"),
        ("\x16\x03\x01\x02\x00", b"400", "are allowed"),
        ("CONNECT \x1b[2Jevil:443 HTTP/1.1", b"403", "not a host name"),
        ("x" * 20_000, b"400", "longer than"),
    ],
)
def test_requests_to_other_hosts_are_refused_and_reported(
    request_line: str, status: bytes, reason: str
) -> None:
    with server(silent) as port:
        out = Out(port)
        said = out.ask(request_line.format(port=port).encode("latin-1") + b"\r\n\r\n")
    assert said.split(b" ")[1] == status
    (event,) = out.events
    assert event.kind == "refused"
    assert reason in event.reason
    assert event.host.isprintable()


def test_tls_to_an_allowed_name_goes_through(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def greet(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as secured:
            secured.sendall(b"hello " + secured.recv(100))

    trust = ssl.create_default_context(cafile=str(certificate))
    with server(greet) as port:
        out = Out(port)
        tunnel = out.tunnel(port)
        with trust.wrap_socket(tunnel, server_hostname="localhost") as client:
            client.sendall(b"you")
            assert client.recv(100) == b"hello you"
    assert out.events == [EgressEvent(kind="allowed", host="localhost", port=port)]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (hello_for("evil.test"), "asks for evil.test"),
        (hello_for("localhost.evil.test"), "asks for localhost.evil.test"),
        (hello_for(None), "names no server"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak TLS"),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", "does not begin with a ClientHello"),
    ],
)
def test_a_tunnel_for_one_name_carries_no_other(hello: bytes, reason: str) -> None:
    with server(lambda client: None if client.recv(1) == b"" else silent(client)) as port:
        out = Out(port)
        with closing(out.tunnel(port)) as client:
            client.sendall(hello)
            assert client.recv(100) == bytes((21, 3, 3, 0, 2, 2, 112))
            assert client.recv(100) == b""
    (event,) = out.events
    assert event.kind == "refused"
    assert reason in event.reason


def test_a_plain_request_is_fetched_and_nothing_after_it() -> None:
    heard: list[bytes] = []

    def answer(client: socket.socket) -> None:
        heard.append(client.recv(65536))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\nbody")

    with server(answer) as port:
        out = Out(port)
        first = (
            f"GET http://localhost:{port}/a?b HTTP/1.1\r\nHost: evil.test\r\n"
            "Proxy-Authorization: secret\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n"
        )
        second = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        assert out.ask((first + second).encode()).endswith(b"body")
    sent = f"GET /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\nAccept: */*"
    assert heard == [(sent + "\r\n\r\n").encode()]
    assert [event.kind for event in out.events] == ["allowed"]


def test_an_answer_is_streamed(certificate: Path) -> None:
    go_on = threading.Event()

    def answer(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(b"first")
        go_on.wait(LONG_S)
        client.sendall(b"second")

    with server(answer) as port, closing(Out(port).egress.connect()) as client:
        client.sendall(f"GET http://localhost:{port}/ HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100) == b"first"
        go_on.set()
        assert client.recv(100) == b"second"


def test_an_unreachable_server_is_reported() -> None:
    with server(silent) as port:
        pass
    out = Out(port)
    assert out.ask(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 502 localhost cannot be reached"
    )
    assert [event.kind for event in out.events] == ["refused"]


def test_a_client_that_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress_module, "HEAD_S", 0.1)
    with closing(Out(1).egress.connect()) as client:
        client.sendall(b"CONNECT ")
        assert client.recv(100) == b""


def test_the_number_of_connections_is_limited() -> None:
    egress = Out(1).egress
    many = [egress.connect() for _ in range(egress_module.MAX_CONNECTIONS)]
    with pytest.raises(ConnectionRefusedError, match="too many connections"):
        egress.connect()
    for one in many:
        one.close()


def test_a_closed_proxy_ends_what_is_connected_and_takes_no_more(certificate: Path) -> None:
    def listen(client: socket.socket) -> None:
        while client.recv(65536):
            pass

    with server(listen) as port:
        out = Out(port)
        with out.egress, closing(out.tunnel(port)) as client:
            client.sendall(hello_for("localhost"))
            wait_until(lambda: out.events)
            out.egress.close()
            client.settimeout(LONG_S)
            assert client.recv(100) == b""
        with pytest.raises(ConnectionRefusedError):
            out.egress.connect()


@given(st.text(st.characters(max_codepoint=0xFF), max_size=300))
def test_any_head_is_a_request_or_refused(text: str) -> None:
    for head in (text, f"GET http://a.org/ HTTP/1.1\r\n{text}", f"CONNECT {text}:443 HTTP/1.1"):
        with suppress(InvalidRequest):
            plain = parse_request(head).plain or b""
            assert plain.count(b"\r\n\r\n") == bool(plain)
