"""The allow-list of the egress proxy: host names, and the addresses they may resolve to."""

import ipaddress
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from contracts.errors import OptionInvalid

HTTP, HTTPS = 80, 443
_LOOK_UP_AGAIN_S = (0.2, 0.6)
"""Waits before a name is looked up again, if the name server did not answer."""
_LOOKED_UP_FOR_S = 10.0

_RULE = re.compile(r"((?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([0-9]{1,5}))?")
# Translators send packets for these addresses to the IPv4 address in the last 32 bits.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RouteRefused(Exception):
    """The host may not be reached; the text is the reason."""


class HostRule(NamedTuple):
    """A host name, or with a leading dot all names below it; `port` None means 80 and 443."""

    name: str
    port: int | None

    def matches(self, host: str, port: int) -> bool:
        """Return whether the rule allows this host and port."""
        named = host.endswith(self.name) if self.name[0] == "." else host == self.name
        return named and (port in (HTTP, HTTPS) if self.port is None else port == self.port)


class AllowList:
    """Allowed host names, and allowed addresses outside the public internet.

    `trusted` are more host names, which may have any address: clients of this machine itself go
    there.
    """

    def __init__(
        self,
        allow: Sequence[str],
        addresses: Sequence[str] = (),
        *,
        trusted: Sequence[str] = (),
    ) -> None:
        self._trusted = tuple(parse_rule(rule) for rule in trusted)
        self._rules = (*(parse_rule(rule) for rule in allow), *self._trusted)
        self._locks: defaultdict[tuple[str, int], threading.Lock] = defaultdict(threading.Lock)
        self._looked_up: dict[tuple[str, int], tuple[float, list[str] | OSError]] = {}
        self._networks = tuple(parse_network(address) for address in addresses)

    def is_trusted(self, host: str, port: int) -> bool:
        """Return whether clients of this machine itself go to this host."""
        return any(rule.matches(host, port) for rule in self._trusted)

    def check(self, host: str, port: int) -> None:
        """Raise unless the host, in lower case, is on the list.

        Raises:
            RouteRefused: the host is not on the list, or is an address.
        """
        if not _NAME.fullmatch(host) or is_address(host):
            raise RouteRefused("not a host name")
        if not any(rule.matches(host, port) for rule in self._rules):
            raise RouteRefused("not on the allow-list")

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of the host that may be connected to.

        Raises:
            RouteRefused: it resolves only to addresses that are not allowed.
            OSError: it does not resolve. That may pass: name servers drop queries under load.
        """
        addresses = self._look_up(host, port)
        if self.is_trusted(host, port):
            return addresses
        reachable = [address for address in addresses if self._may_reach(address)]
        if not reachable:
            raise RouteRefused(
                f"it resolves to {', '.join(addresses[:4])}, which is not on the public "
                "internet; the operator can allow such addresses"
            )
        return reachable

    def _look_up(self, host: str, port: int) -> list[str]:
        """Return the addresses of the host; all connections of some seconds share a query.

        An install opens a hundred connections at once: name servers drop queries at that rate.
        """
        with self._locks[host, port]:
            until, found = self._looked_up.get((host, port), (0.0, []))
            if time.monotonic() > until:
                try:
                    found = _look_up(host, port)
                except OSError as error:
                    found = error
                self._looked_up[host, port] = (time.monotonic() + _LOOKED_UP_FOR_S, found)
        if isinstance(found, OSError):
            raise found
        return found

    def _may_reach(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        is_allowed = any(address in network for network in self._networks)
        return is_allowed or (is_public(address) and not is_own_address(text))


def _look_up(host: str, port: int) -> list[str]:
    waits = iter(_LOOK_UP_AGAIN_S)
    while True:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return [str(place[0]) for *_, place in found]
        except (OSError, UnicodeError) as error:
            again = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
            wait_s = next(waits, None) if again else None
            if wait_s is None:
                raise OSError(f"the name does not resolve: {error}") from error
            time.sleep(wait_s)


def parse_rule(text: str) -> HostRule:
    """Return the rule for `name` or `*.suffix`, with or without `:port`.

    Raises:
        OptionInvalid: the text has another form.
    """
    found = _RULE.fullmatch(text.lower())
    if found is None or is_address(found[1]) or (found[2] and not 0 < int(found[2]) < 65536):
        raise OptionInvalid(
            f"{text!r} is no host to allow: wanted a name such as 'example.org', "
            "'*.example.org' or 'mirror.example.org:8443'"
        )
    return HostRule(found[1].removeprefix("*"), int(found[2]) if found[2] else None)


def parse_network(text: str) -> Network:
    """Return the network for an address, or for one such as `10.0.0.0/8`.

    Raises:
        OptionInvalid: the text is neither.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise OptionInvalid(f"{text!r} is no address or network: {error}") from error


def is_public(address: Address) -> bool:
    """Return whether an address is public: not loopback, private, link-local or metadata."""
    inner = _embedded(address)
    return address.is_global and not address.is_multicast and (inner is None or is_public(inner))


def is_own_address(address: str) -> bool:
    """Return whether the address belongs to this machine; no packet is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False
        return bool(probe.getsockname()[0] == address)


def _embedded(address: Address) -> Address | None:
    """Return the IPv4 address that an IPv6 address embeds, which a translator would use."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def is_address(host: str) -> bool:
    """Return whether a resolver would take the text for an address."""
    try:
        # It takes all forms that a resolver takes, such as 0x7f.1 and 2130706433.
        socket.inet_aton(host)
    except OSError:
        return ":" in host
    return True
