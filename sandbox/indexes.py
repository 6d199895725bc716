"""Package indexes by name, such as `python`: their hosts, and how clients in a sandbox get there.

No host is named here. An index that this machine's own client is configured to use comes first;
else the client in the sandbox is asked for its default. Passwords of this machine never enter a
sandbox: an index that needs one is left out, and a notice names it. Folders of this machine
(`file:`) beside an index are left out without a notice.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from contracts.sandbox import Command, Sandbox
from sandbox.redaction import redact_url
from sandbox.routes import is_address

DefaultHosts = Callable[[], tuple[str, ...]]
"""Gives the hosts of the client's own default index."""

NPMRC = "/var/tmp/harness-npmrc"  # noqa: S108  inside; any user may write there
"""Path of npm's configuration inside the sandbox, for registries of scopes."""

# The answers come from files that only root can change, whatever commands ran before.
_CLEAN = ("env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent")
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "python": (
        *_CLEAN, "python3", "-I", "-c",
        "from pip._internal.models.index import PyPI as p; print(p.simple_url);"
        "print('https://' + p.file_storage_domain)",
    ),
    "node": (*_CLEAN, "npm", "config", "get", "registry", "--userconfig=/dev/null"),
}  # fmt: skip
INDEXES = frozenset(_DEFAULTS)
"""Names of the package indexes that can be opened."""
_ASK_S = 60.0
_NPM_SECRET = re.compile(r"^(//.+/):_(authToken|auth|password)$")
_NPM_SCOPE = re.compile(r"^@[\w.~-]+:registry$")


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Options of this machine's own package clients, by the names that the clients use."""

    pip: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    npm: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    certificates: tuple[Path, ...] = ()
    """Files of certificates that the clients trust."""
    proxies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Proxy of this machine by scheme, as `urllib.request.getproxies` gives them."""


class Route(NamedTuple):
    """The way to package indexes: hosts with ports, variables for clients, files, and notices."""

    hosts: tuple[str, ...] = ()
    env: Mapping[str, str] = MappingProxyType({})
    files: Mapping[str, bytes] = MappingProxyType({})
    notices: tuple[str, ...] = ()

    def joined(self, other: "Route") -> "Route":
        """Return both ways together."""
        return Route(
            tuple(dict.fromkeys((*self.hosts, *other.hosts))),
            {**self.env, **other.env},
            {**self.files, **other.files},
            tuple(dict.fromkeys((*self.notices, *other.notices))),
        )


def find_route(names: Collection[str], clients: ClientSettings, sandbox: Sandbox) -> Route:
    """Return the way to these package indexes; names that are not known are left out.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    route = Route()
    for name in sorted(INDEXES.intersection(names)):
        default = partial(_default_hosts, name, sandbox)
        find, options = _CLIENTS[name], clients.pip if name == "python" else clients.npm
        route = route.joined(find(options, default))
    return route


def certificates(files: Collection[Path]) -> bytes:
    """Return the certificates in these files, without keys and comments."""
    pem = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?")
    read = [file.read_bytes() for file in files if file.is_file()]
    return b"".join(dict.fromkeys(found for text in read for found in pem.findall(text)))


def _default_hosts(name: str, sandbox: Sandbox) -> tuple[str, ...]:
    asked = sandbox.exec(Command(argv=_DEFAULTS[name], cwd="/", timeout_s=_ASK_S))
    return tuple(_host(url) for url in asked.stdout.decode("utf-8", "replace").split())


def _pip_route(options: Mapping[str, str], default: DefaultHosts) -> Route:
    main, secret = options.get("index-url", ""), frozenset[str]()
    # Never the default in place of an index that is left out: other people's packages could have
    # the same names there.
    if main and (reason := _unusable("pip", main, secret)):
        return Route(notices=(reason,))
    more, notices = _usable("pip", _on_a_server(options.get("extra-index-url", "").split()), secret)
    env = {"PIP_INDEX_URL": main, "UV_DEFAULT_INDEX": main} if main else {}
    if more:
        env |= {"PIP_EXTRA_INDEX_URL": " ".join(more), "UV_INDEX": " ".join(more)}
    if trusted := " ".join(options.get("trusted-host", "").split()):
        env |= {"PIP_TRUSTED_HOST": trusted, "UV_INSECURE_HOST": trusted}
    first = (_host(main),) if main else default()
    return Route((*first, *map(_host, more)), env, notices=notices)


def _on_a_server(urls: Collection[str]) -> list[str]:
    return [url for url in urls if urlsplit(url).scheme != "file"]


def _npm_route(options: Mapping[str, str], default: DefaultHosts) -> Route:
    secret = frozenset(found[1] for key in options if (found := _NPM_SECRET.match(key)))
    main = options.get("registry", "")
    if main and (reason := _unusable("npm", main, secret)):
        return Route(notices=(reason,))
    scopes = {key: url for key, url in options.items() if _NPM_SCOPE.match(key)}
    more, notices = _usable("npm", scopes.values(), secret)
    env = {"npm_config_registry": main, "YARN_NPM_REGISTRY_SERVER": main} if main else {}
    lines = "".join(f"{key}={url}\n" for key, url in scopes.items() if url in more)
    if lines:
        env |= {"npm_config_userconfig": NPMRC}
    first = (_host(main),) if main else default()
    files = {NPMRC: lines.encode()} if lines else {}
    return Route((*first, *map(_host, more)), env, files, notices)


_CLIENTS = {"python": _pip_route, "node": _npm_route}


def _usable(
    client: str, urls: Collection[str], secret: Collection[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the indexes that can be used in a sandbox, and why the others cannot."""
    reasons = {url: _unusable(client, url, secret) for url in urls}
    return [url for url in urls if not reasons[url]], tuple(filter(None, reasons.values()))


def _unusable(client: str, url: str, secret: Collection[str]) -> str:
    """Return why an index of this machine cannot be used inside; empty if it can."""
    parts = urlsplit(url)
    shown = f"the index {redact_url(url)} of this machine's {client} is not used in the sandbox"
    if parts.scheme not in ("http", "https"):
        return f"{shown}: it is no URL of http or https"
    if is_address(parts.hostname or "") or parts.hostname == "localhost":
        return f"{shown}: it has no host name of its own, by which a sandbox could reach it"
    if parts.username or any(url.partition(":")[2].startswith(place) for place in secret):
        return f"{shown}: it needs a password, and passwords never enter a sandbox"
    return ""


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
