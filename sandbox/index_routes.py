"""The way to each client's package indexes: hosts, variables and files for the client inside.

Those of Java are in `jvm_routes.py`.

Passwords of this machine never enter a sandbox: an index that needs one is left out, and a notice
names it. Folders of this machine (`file:`) beside an index are left out without a notice.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from sandbox.redaction import redact_url
from sandbox.routes import is_address

_FOLDER = "/var/tmp"  # noqa: S108  inside; any user may write there
NPMRC = f"{_FOLDER}/harness-npmrc"
"""Path of npm's configuration inside the sandbox, for registries of scopes."""
BUNDLE_CONFIG = f"{_FOLDER}/harness-bundle"
GEMRC = f"{_FOLDER}/harness-gemrc"
COMPOSER_HOME = f"{_FOLDER}/harness-composer"
# Tests without a network need it as well: caches are kept by the name of the index.
CARGO_CONFIG = "~/.cargo/config.toml"
NUGET_CONFIG = "~/.nuget/NuGet/NuGet.Config"

_NPM_SECRET = re.compile(r"^(//.+/):_(authToken|auth|password)$")
_NPM_SCOPE = re.compile(r"^@[\w.~-]+:registry$")
_GO_SETTINGS = ("GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE")
_CARGO_REGISTRY = re.compile(r"^registries\..+\.index$")
_REPLACED = "source.crates-io.replace-with"
_SPARSE = "sparse+"
_BUNDLE_MIRROR = re.compile(r"^BUNDLE_MIRROR__(?!.*FALLBACK_TIMEOUT)")
_HEX_MIRRORS = ("HEX_TRUSTED_MIRROR", "HEX_MIRROR")
_HEX_BUILDS = "HEX_BUILDS_URL"
_COMPOSER_SECRET = re.compile(r"^(http-basic|bearer|github-oauth|gitlab-token)\.")


class Route(NamedTuple):
    """The way to package indexes: hosts with ports, variables for clients, files, and notices.

    A file's path may begin with `~/`.
    """

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


class Urls(NamedTuple):
    """Indexes that can be used, hosts with those of the default, and why others are left out."""

    usable: tuple[str, ...]
    default: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    refused: bool = False
    """The main index cannot be used, so no other is."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(map(host_of, (*self.default, *self.usable)))


class Asked(NamedTuple):
    """What a route is made from: the client's name and its options on this machine.

    `default` asks the client in the sandbox for the URLs of its own indexes. `download_url` reads
    where the index with this configuration of cargo keeps its files; empty if it does not tell.
    `redirects` returns the URLs that a URL leads to.
    """

    client: str
    options: Mapping[str, str]
    default: Callable[[], tuple[str, ...]]
    download_url: Callable[[str], str]
    redirects: Callable[[str], tuple[str, ...]]

    def urls(self, main: str, more: Collection[str] = (), secret: Collection[str] = ()) -> Urls:
        """Return which of these indexes can be used; the client's default if none is the `main`.

        `secret` are the parts of URLs after the scheme for which this machine has a password.
        """
        wanted = [main] * bool(main) + [url for url in more if not url.startswith("file:")]
        reasons = {url: self.unusable(url, secret) for url in wanted}
        usable = tuple(url for url in reasons if not reasons[url])
        notices = tuple(filter(None, reasons.values()))
        # Never the default in place of an index that is left out: other people's packages could
        # have the same names there.
        if main and main not in usable:
            return Urls((), notices=notices[:1], refused=True)
        return Urls(usable, () if main else self.default(), notices)

    def unusable(self, url: str, secret: Collection[str] = ()) -> str:
        """Return why an index of this machine cannot be used inside; empty if it can."""
        place = f"the index {redact_url(url)} of this machine's {self.client}"
        shown = f"{place} is not used in the sandbox"
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and parts.port != 0
        except ValueError:  # a bracket without its pair, or a port that is no number
            is_url = False
        if not is_url:
            return f"{shown}: it is no URL of http or https"
        if is_address(parts.hostname or "") or parts.hostname == "localhost":
            return f"{shown}: it has no host name of its own, by which a sandbox could reach it"
        if parts.username or any(url.partition(":")[2].startswith(one) for one in secret):
            return f"{shown}: it needs a password, and passwords never enter a sandbox"
        return ""


FindRoute = Callable[[Asked], Route]


def pip_route(asked: Asked) -> Route:
    """Return the way for pip and uv."""
    options = asked.options
    main = options.get("index-url", "")
    urls = asked.urls(main, options.get("extra-index-url", "").split())
    if urls.refused:
        return Route(notices=urls.notices)
    more = " ".join(url for url in urls.usable if url != main)
    env = {"PIP_INDEX_URL": main, "UV_DEFAULT_INDEX": main} if main else {}
    if more:
        env |= {"PIP_EXTRA_INDEX_URL": more, "UV_INDEX": more}
    if trusted := " ".join(options.get("trusted-host", "").split()):
        env |= {"PIP_TRUSTED_HOST": trusted, "UV_INSECURE_HOST": trusted}
    return Route(urls.hosts, env, notices=urls.notices)


def npm_route(asked: Asked) -> Route:
    """Return the way for npm, pnpm and yarn."""
    options = asked.options
    secret = frozenset(found[1] for key in options if (found := _NPM_SECRET.match(key)))
    main = options.get("registry", "")
    scopes = {key: url for key, url in options.items() if _NPM_SCOPE.match(key)}
    urls = asked.urls(main, scopes.values(), secret)
    if urls.refused:
        return Route(notices=urls.notices)
    env = {"npm_config_registry": main, "YARN_NPM_REGISTRY_SERVER": main} if main else {}
    lines = "".join(f"{key}={url}\n" for key, url in scopes.items() if url in urls.usable)
    if not lines:
        return Route(urls.hosts, env, notices=urls.notices)
    env |= {"npm_config_userconfig": NPMRC}
    return Route(urls.hosts, env, {NPMRC: lines.encode()}, urls.notices)


def go_route(asked: Asked) -> Route:
    """Return the way to Go's module proxies and its checksum database."""
    options = asked.options
    configured = options.get("GOPROXY", "")
    entries = map(str.strip, re.split(r"[,|]", configured))
    # Without `direct`: modules come from a proxy, or not at all.
    proxies = [url for url in entries if url not in ("", "direct", "off")]
    if configured and not proxies:
        # The default proxy would learn the names of modules that this machine keeps from it.
        reason = (
            f"this machine's go uses no proxy (GOPROXY={configured}), and a sandbox nothing else"
        )
        return Route(notices=(reason,))
    urls = asked.urls(proxies[0] if proxies else "", proxies[1:])
    if urls.refused:
        return Route(notices=urls.notices)
    env = _some(options, *_GO_SETTINGS)
    if not proxies:
        return Route(urls.hosts, env, notices=urls.notices)
    checksums = () if options.get("GOSUMDB") == "off" else asked.default()[1:]
    hosts = (*urls.hosts, *map(host_of, checksums))
    return Route(hosts, {**env, "GOPROXY": ",".join(urls.usable)}, notices=urls.notices)


def cargo_route(asked: Asked) -> Route:
    """Return the way to cargo's index, other registries, and where they keep their files."""
    options = {key: url.removeprefix(_SPARSE) for key, url in asked.options.items()}
    name = options.get(_REPLACED, "")
    main = options.get(f"source.{name}.registry") or options.get(f"registries.{name}.index", name)
    registries = {key: url for key, url in options.items() if _CARGO_REGISTRY.match(key)}
    with_token = (key for key in registries if f"{key.removesuffix('index')}token" in options)
    secret = [registries[key].partition(":")[2] for key in with_token]
    urls = asked.urls(main, registries.values(), secret)
    if urls.refused:
        return Route(notices=urls.notices)
    configs = (*urls.default, *(f"{url.rstrip('/')}/config.json" for url in urls.usable))
    downloads = [url for url in map(asked.download_url, configs) if not asked.unusable(url)]
    used = {k: asked.options[k] for k, url in options.items() if url in urls.usable}
    lines = [
        f"{'.'.join(map(json.dumps, key.split('.')))} = {json.dumps(value)}\n"
        for key, value in {**used, **_some(options, _REPLACED)}.items()
    ]
    files = {CARGO_CONFIG: "".join(lines).encode()} if lines else {}
    return Route((*urls.hosts, *map(host_of, downloads)), files=files, notices=urls.notices)


def bundler_route(asked: Asked) -> Route:
    """Return the way for Bundler, by its mirrors, and for gem, by its sources."""
    options = asked.options
    mirrors = {key: url for key, url in options.items() if _BUNDLE_MIRROR.match(key)}
    secret = [f"//{one}" for one in map(_unfolded, set(options) - set(mirrors)) if "." in one]
    sources = options.get("sources", "").split()
    main = mirrors.get("BUNDLE_MIRROR__ALL", "")
    if mirrors and not main:
        replaced = asked.default()[:1]
        main = next((mirrors[k] for k in mirrors if _unfolded(k).strip("/") in replaced), "")
    urls = asked.urls(main, [*mirrors.values(), *sources], secret)
    lines = "".join(f'{key}: "{url}"\n' for key, url in mirrors.items() if url in urls.usable)
    more = "".join(f"- {url}\n" for url in sources if url in urls.usable)
    env = {"BUNDLE_USER_CONFIG": BUNDLE_CONFIG} if lines else {}
    files = {BUNDLE_CONFIG: f"---\n{lines}".encode()} if lines else {}
    if more:
        env |= {"GEMRC": GEMRC}
        files |= {GEMRC: f"---\n:sources:\n{more}".encode()}
    return Route(urls.hosts, env, files, urls.notices)


def composer_route(asked: Asked) -> Route:
    """Return the way to Packagist or what this machine's Composer uses in its place."""
    options = asked.options
    secret = [f"//{key.partition('.')[2]}" for key in options if _COMPOSER_SECRET.match(key)]
    more = [url for key, url in options.items() if key.startswith("repositories.")]
    main = options.get("packagist", "")
    if main == "false":
        main = more[0] if more else main
    urls = asked.urls(main, more, secret)
    if not urls.usable:
        return Route(urls.hosts, notices=urls.notices)
    repositories: list[object] = [{"type": "composer", "url": url} for url in urls.usable]
    config = {
        "repositories": [*repositories, *([{"packagist": False}] if main else [])],
        "config": {"secure-http": options.get("secure-http") != "false"},
    }
    files = {f"{COMPOSER_HOME}/config.json": json.dumps(config).encode()}
    return Route(urls.hosts, {"COMPOSER_HOME": COMPOSER_HOME}, files, urls.notices)


def hex_route(asked: Asked) -> Route:
    """Return the way for Hex, and for Mix, which installs Hex itself."""
    options = asked.options
    mirror = next((name for name in _HEX_MIRRORS if options.get(name)), "")
    builds = options.get(_HEX_BUILDS, "")
    urls = asked.urls(options.get(mirror, ""), [builds] * bool(builds))
    env = {k: url for k, url in _some(options, mirror, _HEX_BUILDS).items() if url in urls.usable}
    return Route(urls.hosts, env, notices=urls.notices)


def nuget_route(asked: Asked) -> Route:
    """Return the way for .NET to the sources of this machine's NuGet."""
    options = asked.options
    sources = {k.removeprefix("source."): u for k, u in options.items() if k.startswith("source.")}
    secret = [u.partition(":")[2] for k, u in sources.items() if f"password.{k}" in options]
    urls = asked.urls(next(iter(sources.values()), ""), sources.values(), secret)
    used = {name: url for name, url in sources.items() if url in urls.usable}
    if not used:
        return Route(urls.hosts, notices=urls.notices)
    config = Element("configuration")
    within = SubElement(config, "packageSources")
    SubElement(within, "clear")
    for name, url in used.items():
        plain = {"allowInsecureConnections": "true"} if url.startswith("http:") else {}
        SubElement(within, "add", {"key": name, "value": url, **plain})
    return Route(urls.hosts, files={NUGET_CONFIG: tostring(config)}, notices=urls.notices)


def _some(options: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: options[name] for name in names if name in options}


def _unfolded(key: str) -> str:
    """Return the URL or host in the name of an option of Bundler."""
    name = key.removeprefix("BUNDLE_").removeprefix("MIRROR__").lower()
    return name.replace("___", "-").replace("__", ".")


def host_of(url: str) -> str:
    """Return the host of a URL with its port."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
