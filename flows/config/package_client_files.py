"""The settings files of package clients other than pip and npm, read as options by name.

A file that cannot be read is left out.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import yaml

from contracts.json import as_mapping

Options = Iterator[tuple[str, str]]
"""Names and values, those that count more later."""

_CARGO_INDEX = re.compile(r"CARGO_REGISTRIES_(\w+)_(INDEX|TOKEN)")
_INIT_URL = re.compile(r"https?://[^\s'\"]+")
_HEX_OPTION = re.compile(r"\b(trusted_)?mirror_url\s*,\s*<<\"([^\"]*)\"")
_SECRETS = ("http-basic", "bearer", "github-oauth", "gitlab-token")


def cargo_options(env: Mapping[str, str]) -> Options:
    """Yield values of `config.toml` and `credentials.toml` by their path, such as `a.b.c`."""
    folder = env.get("CARGO_HOME") or "~/.cargo"
    for name in ("config.toml", "config", "credentials.toml", "credentials"):
        with suppress(tomllib.TOMLDecodeError):
            yield from _flat(tomllib.loads(_text(folder, name)))
    for name, value in env.items():
        if found := _CARGO_INDEX.fullmatch(name):
            yield f"registries.{found[1].lower().replace('_', '-')}.{found[2].lower()}", value


def go_options(env: Mapping[str, str]) -> Options:
    """Yield what `go env -w` wrote, then the variables."""
    file = env.get("GOENV") or f"{env.get('XDG_CONFIG_HOME') or '~/.config'}/go/env"
    for line in _text(file).splitlines():
        name, found, value = line.partition("=")
        if found and not line.startswith("#"):
            yield name.strip(), value.strip()
    yield from ((name, value) for name, value in env.items() if name.startswith("GO") and value)


def maven_options(env: Mapping[str, str]) -> Options:
    """Yield `mirror.ID.url`, `mirror.ID.mirrorOf`, and `server.ID` where there is a password."""
    for folder in ("/etc/maven", f"{env.get('MAVEN_HOME') or '/usr/share/maven'}/conf", "~/.m2"):
        settings = _xml(_text(folder, "settings.xml"))
        for mirror in settings.iterfind("mirrors/mirror"):
            name = mirror.findtext("id", "").strip()
            if mirror.findtext("blocked", "").strip() != "true":
                for field in ("url", "mirrorOf"):
                    yield f"mirror.{name}.{field}", mirror.findtext(field, "").strip()
        for server in settings.iterfind("servers/server"):
            yield f"server.{server.findtext('id', '').strip()}", "has a password"


def gradle_options(env: Mapping[str, str]) -> Options:
    """Yield the `repositories` of init scripts, and those `with-password`."""
    home = Path(env.get("GRADLE_USER_HOME") or "~/.gradle").expanduser()
    texts = [
        _text(str(file)) for file in sorted([*home.glob("init.gradle*"), *home.glob("init.d/*")])
    ]
    plain = "".join(re.sub(r"/\*[\s\S]*?\*/|(?<!:)//.*", "", text) for text in texts)
    urls = " ".join(dict.fromkeys(_INIT_URL.findall(plain)))
    yield "repositories", urls
    if re.search(r"\b(credentials|password)\b", plain):
        yield "with-password", urls


def hex_options(env: Mapping[str, str]) -> Options:
    """Yield the mirrors of `hex.config`, then the variables of Hex."""
    for trusted, url in _HEX_OPTION.findall(_text(env.get("HEX_HOME") or "~/.hex", "hex.config")):
        yield "HEX_TRUSTED_MIRROR" if trusted else "HEX_MIRROR", url
    yield from ((name, value) for name, value in env.items() if name.startswith("HEX_") and value)


def nuget_options(env: Mapping[str, str]) -> Options:
    """Yield `source.NAME` and `password.NAME` of the user's NuGet; a disabled source is none."""
    config = _xml(_text(env.get("DOTNET_CLI_HOME") or "~", ".nuget/NuGet/NuGet.Config"))
    off = {one.get("key") for one in config.iterfind("disabledPackageSources/add[@value='true']")}
    for source in config.iterfind("packageSources/add"):
        name = source.get("key", "")
        if name not in off:
            yield f"source.{name}", source.get("value", "")
    for one in config.iterfind("packageSourceCredentials/*"):
        yield f"password.{one.tag.replace('_x0020_', ' ')}", "is there"


def bundler_options(env: Mapping[str, str]) -> Options:
    """Yield what `bundle config` wrote, RubyGems' `sources`, then the variables of Bundler."""
    for file in ("/etc/gemrc", env.get("GEMRC") or "~/.gemrc"):
        sources = _yaml(file).get(":sources")
        if isinstance(sources, list):
            yield "sources", " ".join(map(str, sources))
    yield from _words(_yaml(env.get("BUNDLE_USER_CONFIG") or "~/.bundle/config"))
    yield from ((name, value) for name, value in env.items() if name.startswith("BUNDLE_"))


def composer_options(env: Mapping[str, str]) -> Options:
    """Yield URLs as `repositories.N` and `packagist`, and hosts with passwords."""
    folders = ("~/.composer", f"{env.get('XDG_CONFIG_HOME') or '~/.config'}/composer")
    own = env.get("COMPOSER_HOME")
    for folder in (own,) if own else folders:
        data = _json(_text(folder, "config.json"))
        yield from _words(as_mapping(data.get("config")))
        listed = data.get("repositories")
        named = list(as_mapping(listed).items()) or [
            pair
            for number, one in enumerate(listed if isinstance(listed, list) else ())
            for pair in _named_repository(as_mapping(one), number)
        ]
        for name, one in named:
            yield from _repository(name, one)
        yield from _passwords(_json(_text(folder, "auth.json")))
    yield from _passwords(_json(env.get("COMPOSER_AUTH", "")))


def _named_repository(one: Mapping[str, object], number: int) -> Iterator[tuple[str, object]]:
    yield from [(str(number), one)] if "url" in one else one.items()


def _repository(name: str, one: object) -> Options:
    is_main = name.removesuffix(".org") == "packagist"  # Composer knows both names
    key = "packagist" if is_main else f"repositories.{name}"
    if is_main and one is False:
        yield key, "false"
    elif as_mapping(one).get("type") == "composer":
        yield key, str(as_mapping(one).get("url", ""))


def _passwords(auth: Mapping[str, object]) -> Options:
    for kind in _SECRETS:
        yield from ((f"{kind}.{host}", "is there") for host in as_mapping(auth.get(kind)))


def _flat(table: Mapping[str, object], start: str = "") -> Options:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{start}{name}.")
        elif isinstance(value, str):
            yield f"{start}{name}", value


def _words(table: Mapping[str, object]) -> Options:
    for name, value in table.items():
        if isinstance(value, str | bool):
            yield str(name), value if isinstance(value, str) else str(value).lower()


def _xml(text: str) -> ElementTree.Element:
    """Return the top element, without a namespace; an empty one if the text is no XML."""
    plain = re.sub(r"\sxmlns=[\"'][^\"']*[\"']", "", text.lstrip("\ufeff"), count=1)
    try:
        return ElementTree.fromstring(plain)  # noqa: S314 - a file of this machine's user
    except ElementTree.ParseError:
        return ElementTree.Element("none")


def _yaml(file: str) -> Mapping[str, object]:
    try:
        return as_mapping(yaml.safe_load(_text(file)))
    except yaml.YAMLError:
        return {}


def _json(text: str) -> Mapping[str, object]:
    try:
        return as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _text(*path: str) -> str:
    with suppress(OSError, UnicodeDecodeError, RuntimeError):
        return Path(*path).expanduser().read_text(encoding="utf-8")
    return ""
