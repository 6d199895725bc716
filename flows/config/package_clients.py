"""How package clients on this machine are configured, read from their files and variables."""

import ssl
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from contextlib import suppress
from pathlib import Path
from urllib.request import getproxies

from flows.config.environment import environment
from flows.config.package_client_files import (
    bundler_options,
    cargo_options,
    composer_options,
    go_options,
    gradle_options,
    hex_options,
    maven_options,
    nuget_options,
)
from sandbox.indexes import ClientSettings

_PIP_SECTIONS = ("global", "install")
_OTHERS = {
    "cargo": cargo_options,
    "go": go_options,
    "maven": maven_options,
    "gradle": gradle_options,
    "hex": hex_options,
    "nuget": nuget_options,
    "bundler": bundler_options,
    "composer": composer_options,
}
_CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")


def client_settings() -> ClientSettings:
    """Return the options of this machine's clients. A file that cannot be read is left out."""
    env = environment()
    pip = dict(_pip_options(env))
    npm = dict(_npm_options(env))
    named = [pip.get("cert"), npm.get("cafile"), *(env.get(name) for name in _CERTIFICATES)]
    own = [Path(path).expanduser() for path in named if path]
    # What the clients trust beside the usual authorities, so these are needed too.
    usual = ssl.get_default_verify_paths().cafile
    everything = (*own, *([Path(usual)] if usual and own else []))
    proxy = pip.get("proxy") or npm.get("https-proxy") or npm.get("proxy")
    proxies = {**({"https": proxy, "http": proxy} if proxy else {}), **getproxies()}
    others = {client: dict(options(env)) for client, options in _OTHERS.items()}
    return ClientSettings(
        options={"pip": pip, "npm": npm, **others},
        certificates=tuple(dict.fromkeys(everything)),
        proxies=proxies,
    )


def _pip_options(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield options from the weakest place to the strongest, as pip reads them."""
    config = Path(env.get("XDG_CONFIG_HOME") or "~/.config")
    system = [Path(folder, "pip") for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")]
    folders = [*system, Path("/etc"), Path("~/.pip"), config / "pip"]
    only = env.get("PIP_CONFIG_FILE")
    files = [folder / "pip.conf" for folder in folders] if only != "/dev/null" else []
    for file in (*files, *([Path(only)] if only else [])):
        parser = ConfigParser(interpolation=None, strict=False)
        with suppress(OSError, UnicodeDecodeError, IniError):
            parser.read_string(file.expanduser().read_text())
        for section in _PIP_SECTIONS:
            if parser.has_section(section):
                yield from parser.items(section)
    for name, value in env.items():
        if name.startswith("PIP_") and value:
            yield name.removeprefix("PIP_").lower().replace("_", "-"), value


def _npm_options(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    own = env.get("npm_config_userconfig") or env.get("NPM_CONFIG_USERCONFIG") or "~/.npmrc"
    for file in ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", own):
        with suppress(OSError, UnicodeDecodeError):
            for line in Path(file).expanduser().read_text().splitlines():
                key, found, value = line.partition("=")
                if found and not key.lstrip().startswith(("#", ";")):
                    yield key.strip(), value.strip().strip("\"'")
    for name, value in env.items():
        if name.lower().startswith("npm_config_") and value:
            yield name.lower().removeprefix("npm_config_").replace("_", "-"), value
