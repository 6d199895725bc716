"""Package indexes by name, such as `python`: their hosts, and how clients in a sandbox get there.

No host is named here. An index that this machine's own client is configured to use comes first;
else the client in the sandbox is asked for its default.
"""

import json
import re
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from contracts.json import as_mapping
from contracts.sandbox import Command, Sandbox
from sandbox.index_routes import (
    Asked,
    FindRoute,
    Route,
    bundler_route,
    cargo_route,
    composer_route,
    go_route,
    hex_route,
    npm_route,
    nuget_route,
    pip_route,
)
from sandbox.jvm_routes import gradle_route, maven_route

_ASK_S = 60.0
_FETCH_S = 15.0
_MOST_BYTES = 64 * 1024
_URL = re.compile(r"https?://[^\s'\"`<>,|]+")
_HOME = Command(argv=("sh", "-c", 'printf %s "$HOME"'), cwd="/", timeout_s=_ASK_S)

# The answers come from files that only root can change, whatever commands ran before.
_CLEAN = ("env", "-i", "PATH=/usr/local/bin:/usr/local/go/bin:/usr/bin:/bin", "HOME=/nonexistent")


class _Index(NamedTuple):
    """The client of a package index, the command that prints its defaults, and its route."""

    client: str
    default: tuple[str, ...]
    route: FindRoute


_INDEXES: Mapping[str, _Index] = {
    "python": _Index(
        "pip",
        (
            *_CLEAN, "python3", "-I", "-c",
            "from pip._internal.models.index import PyPI as p; print(p.simple_url);"
            "print('https://' + p.file_storage_domain)",
        ),
        pip_route,
    ),
    "node": _Index(
        "npm", (*_CLEAN, "npm", "config", "get", "registry", "--userconfig=/dev/null"), npm_route
    ),
    "go": _Index(
        "go",
        (
            *_CLEAN, "GOENV=off", "sh", "-c",
            "go env GOPROXY && echo https://$(go env GOSUMDB)",
        ),
        go_route,
    ),
    # cargo tells its index only when it cannot reach it.
    "rust": _Index(
        "cargo",
        (
            *_CLEAN, "CARGO_NET_RETRY=0", "sh", "-c",
            "d=$(mktemp -d); CARGO_HOME=$d cargo search --limit 1 x 2>&1 |"
            " sed -n 's|.*resolve host: \\([a-z.]*\\).*|https://\\1/config.json|p'; rm -r $d",
        ),
        cargo_route,
    ),
    "java": _Index(
        "maven",
        (
            *_CLEAN, "python3", "-I", "-c",
            "import glob, re, zipfile;"
            "jar = glob.glob('/usr/share/maven/lib/maven-model-builder*.jar')[0];"
            "pom = zipfile.ZipFile(jar).read('org/apache/maven/model/pom-4.0.0.xml').decode();"
            "print(*re.findall('<url>(.*?)</url>', pom))",
        ),
        maven_route,
    ),
    # First where the wrapper gets Gradle itself from, then repositories of libraries and plugins.
    "gradle": _Index(
        "gradle",
        (
            *_CLEAN, "python3", "-I", "-c",
            "import glob, re, zipfile;"
            "read = lambda jar, name: re.findall('https://[a-z./-]+[0-9]?', zipfile.ZipFile("
            "glob.glob('/usr/share/java/' + jar)[0]).read('org/gradle/' + name).decode('latin-1'));"
            "print(min(read('gradle-core-[0-9]*.jar', 'util/DistributionLocator.class'), key=len),"
            " *(url.replace('//plugins.', end) for url in read("
            "'gradle-dependency-management-[0-9]*.jar', 'api/internal/artifacts/repositories/'"
            " 'DefaultBaseRepositoryFactory.class')"
            " for end in ('//plugins.', '//plugins-artifacts.')))",
        ),
        gradle_route,
    ),
    "ruby": _Index(
        "bundler",
        (
            *_CLEAN, "ruby", "-e",
            "require 'bundler'; require 'bundler/fetcher';"
            "at = Struct.new(:uri).new(Bundler::URI(Gem.sources.first.uri.to_s));"
            "puts at.uri, Class.new(Bundler::Fetcher::Base).new(nil, at, nil).fetch_uri",
        ),
        bundler_route,
    ),
    # Packagist has no files of its own: it names archives of GitHub.
    "php": _Index(
        "composer",
        (
            *_CLEAN, "php", "-r",
            "require '/usr/share/php/Composer/autoload.php';"
            "foreach (Composer\\Config::$defaultRepositories as $r) echo $r['url'], PHP_EOL;"
            "foreach (Composer\\Config::$defaultConfig['github-domains'] as $d)"
            " echo \"https://api.$d\", PHP_EOL, \"https://codeload.$d\", PHP_EOL;",
        ),
        composer_route,
    ),
    # Newer Elixir gets Hex itself from a host of its own.
    "elixir": _Index(
        "hex",
        (
            *_CLEAN, "elixir", "-e",
            "own = if Code.ensure_loaded?(Mix.Hex) and function_exported?(Mix.Hex, :mirror, 0),"
            " do: Mix.Hex.mirror(), else: Mix.Hex.url();"
            " IO.puts([own, ?\n, String.replace(own, \"//builds.\", \"//repo.\")])",
        ),
        hex_route,
    ),
    "dotnet": _Index(
        "nuget",
        (
            *_CLEAN, "DOTNET_NOLOGO=1", "sh", "-c",
            "d=$(mktemp -d); HOME=$d DOTNET_CLI_HOME=$d dotnet nuget list source; rm -r $d",
        ),
        nuget_route,
    ),
}  # fmt: skip
INDEXES = frozenset(_INDEXES)
"""Names of the package indexes that can be opened."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """How this machine's own package clients are configured."""

    options: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Options by client, by the names that the client uses."""
    certificates: tuple[Path, ...] = ()
    """Files of certificates that the clients trust."""
    proxies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Proxy of this machine by scheme, as `urllib.request.getproxies` gives them."""


def find_route(names: Collection[str], clients: ClientSettings, sandbox: Sandbox) -> Route:
    """Return the way to these package indexes; names that are not known are left out.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    route = Route()
    for name in sorted(INDEXES.intersection(names)):
        index = _INDEXES[name]
        asked = Asked(
            index.client,
            clients.options.get(index.client, {}),
            partial(_default_urls, index, sandbox),
            partial(_download_url, clients),
            partial(_redirects, clients),
        )
        route = route.joined(index.route(asked))
    if any(path.startswith("~/") for path in route.files):
        home = sandbox.exec(_HOME).text
        files = {path.replace("~", home, 1): data for path, data in route.files.items()}
        route = route._replace(files=files)
    return route


def certificates(files: Collection[Path]) -> bytes:
    """Return the certificates in these files, without keys and comments."""
    pem = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?")
    read = [file.read_bytes() for file in files if file.is_file()]
    return b"".join(dict.fromkeys(found for text in read for found in pem.findall(text)))


def _default_urls(index: _Index, sandbox: Sandbox) -> tuple[str, ...]:
    asked = sandbox.exec(Command(argv=index.default, cwd="/", timeout_s=_ASK_S))
    return tuple(dict.fromkeys(_URL.findall(asked.stdout.decode("utf-8", "replace"))))


def _download_url(clients: ClientSettings, config: str) -> str:
    """Return where cargo downloads crates, which only the index itself tells; empty if unknown."""
    try:
        with _opener(clients).open(config, timeout=_FETCH_S) as answer:
            return str(as_mapping(json.loads(answer.read(_MOST_BYTES))).get("dl", ""))
    except (OSError, HTTPException, ValueError, RecursionError):  # URLError is an OSError
        return ""


def _redirects(clients: ClientSettings, url: str) -> tuple[str, ...]:
    """Return the URLs that a URL of a package index leads to, as far as they can be followed."""
    request = Request(url, method="HEAD")  # noqa: S310 - a client in the image told it
    with suppress(OSError, HTTPException, ValueError):
        _opener(clients).open(request, timeout=_FETCH_S).close()
    return tuple(vars(request).get("redirect_dict", ()))  # where urllib notes its redirects


def _opener(clients: ClientSettings) -> OpenerDirector:
    """Return the way of this machine's own clients to an index."""
    context = ssl.create_default_context()
    if trusted := certificates(clients.certificates):
        context.load_verify_locations(cadata=trusted.decode())
    return build_opener(ProxyHandler(dict(clients.proxies)), HTTPSHandler(context=context))
