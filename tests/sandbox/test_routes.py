"""Where the way out may lead: names by a rule, and addresses of the public internet."""

import ipaddress
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox import routes
from sandbox.routes import AllowList, RouteRefused, is_own_address, is_public
from tests.support.waiting import LONG_S


@pytest.mark.parametrize(
    ("rule", "host", "port", "covered"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 8443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("example.org", "a.example.org", 443, False),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evil-example.org", 443, False),
        ("Example.ORG", "example.org", 443, True),
        ("example.org", "example.org.evil.test", 443, False),
    ],
)
def test_a_rule_matches_its_host_and_port_only(
    rule: str, host: str, port: int, covered: bool
) -> None:
    try:
        AllowList((rule,)).check(host, port)
        found = True
    except RouteRefused:
        found = False
    assert found is covered


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "2130706433", "0x7f.1", "", "a..b", "a b", "*.example.org"]
)
def test_only_names_are_hosts(host: str) -> None:
    with pytest.raises(RouteRefused, match="not a host name"):
        AllowList(("*.org", "a")).check(host, 443)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.17.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False),
    ],
)
def test_only_the_public_internet_is_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


def test_this_machines_own_addresses_are_known() -> None:
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.254")


def test_a_name_server_that_drops_a_query_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_LOOK_UP_AGAIN_S", (0.0, 0.0))
    answers = [socket.gaierror(socket.EAI_AGAIN, "try again"), [(0, 0, 0, "", ("1.1.1.1", 443))]]

    def look_up(*_: object, **__: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert AllowList(("example.org",)).resolve("example.org", 443) == ["1.1.1.1"]


def test_a_name_that_does_not_resolve_is_an_outage_and_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(OSError, match="the name does not resolve"):
        AllowList(("example.org",)).resolve("example.org", 443)


def test_a_name_is_looked_up_once_for_connections_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    let_go = threading.Event()

    def look_up(host: str, *_: object, **__: object) -> object:
        asked.append(host)
        let_go.wait(LONG_S)
        return [(0, 0, 0, "", ("1.1.1.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    ways_out = AllowList(("example.org",))
    with ThreadPoolExecutor(9) as threads:
        found = [threads.submit(ways_out.resolve, "example.org", 443) for _ in range(9)]
        let_go.set()
    assert {one.result()[0] for one in found} == {"1.1.1.1"}
    assert asked == ["example.org"]
