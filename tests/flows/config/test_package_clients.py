"""What this machine's package clients are configured for, read from the files that they read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from flows.config.package_clients import client_settings

MIRROR = "https://mirror.example/x"
MAVEN = f"""<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0">
  <mirrors>
    <mirror><id>corp</id><mirrorOf>*</mirrorOf><url> {MIRROR} </url></mirror>
    <mirror><id>none</id><mirrorOf>*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
  </mirrors>
  <servers><server><id>corp</id><password>hunter2</password></server></servers>
</settings>"""
CARGO = f"""[source.crates-io]
replace-with = "corp"
[source.corp]
registry = "sparse+{MIRROR}/"
"""
COMPOSER = f"""{{
  "config": {{"secure-http": false}},
  "repositories": [{{"type": "composer", "url": "{MIRROR}"}}, {{"packagist": false}}]
}}"""

GRADLE = f"""// https://comment.example/
allprojects {{ repositories {{ maven {{ url '{MIRROR}' }} }} }}
"""
NUGET = f"""\ufeff<?xml version="1.0" encoding="utf-8"?>
<configuration>
  <packageSources>
    <add key="our own" value="{MIRROR}"/><add key="off" value="http://0.0.0.0/"/>
  </packageSources>
  <disabledPackageSources><add key="off" value="true"/></disabledPackageSources>
  <packageSourceCredentials><our_x0020_own><add key="ClearTextPassword" value="hunter2"/>
  </our_x0020_own></packageSourceCredentials>
</configuration>"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "CARGO_HOME", "GOENV", "GOPROXY", "GEMRC", "COMPOSER_HOME", "XDG_CONFIG_HOME",
        "GRADLE_USER_HOME", "HEX_HOME", "HEX_MIRROR", "DOTNET_CLI_HOME",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def options(client: str, files: Mapping[str, str], home: Path) -> Mapping[str, str]:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return client_settings().options[client]


@pytest.mark.parametrize(
    ("client", "file", "text", "expected"),
    [
        ("npm", ".npmrc", f"registry={MIRROR}\n", {"registry": MIRROR}),
        ("go", ".config/go/env", f"GOPROXY={MIRROR}\n#GOSUMDB=off\n", {"GOPROXY": MIRROR}),
        (
            "cargo",
            ".cargo/config.toml",
            CARGO,
            {
                "source.crates-io.replace-with": "corp",
                "source.corp.registry": f"sparse+{MIRROR}/",
            },
        ),
        (
            "cargo",
            ".cargo/credentials.toml",
            '[registries.corp]\ntoken = "hunter2"\n',
            {"registries.corp.token": "hunter2"},
        ),
        (
            "maven",
            ".m2/settings.xml",
            MAVEN,
            {
                "mirror.corp.url": MIRROR,
                "mirror.corp.mirrorOf": "*",
                "server.corp": "has a password",
            },
        ),
        (
            "bundler",
            ".bundle/config",
            f'---\nBUNDLE_MIRROR__ALL: "{MIRROR}"\n',
            {"BUNDLE_MIRROR__ALL": MIRROR},
        ),
        ("bundler", ".gemrc", f"---\n:sources:\n- {MIRROR}\n", {"sources": MIRROR}),
        (
            "composer",
            ".config/composer/config.json",
            COMPOSER,
            {"secure-http": "false", "repositories.0": MIRROR, "packagist": "false"},
        ),
        (
            "composer",
            ".config/composer/auth.json",
            '{"http-basic": {"mirror.example": {"username": "ann", "password": "hunter2"}}}',
            {"http-basic.mirror.example": "is there"},
        ),
        ("gradle", ".gradle/init.d/corp.gradle", GRADLE, {"repositories": MIRROR}),
        (
            "gradle",
            ".gradle/init.gradle.kts",
            f'maven {{ setUrl("{MIRROR}"); credentials {{ password = "hunter2" }} }}',
            {"repositories": MIRROR, "with-password": MIRROR},
        ),
        (
            "hex",
            ".hex/hex.config",
            f'{{mirror_url,<<"{MIRROR}">>}}.\n{{api_key,<<"hunter2">>}}.\n',
            {"HEX_MIRROR": MIRROR},
        ),
        (
            "nuget",
            ".nuget/NuGet/NuGet.Config",
            NUGET,
            {"source.our own": MIRROR, "password.our own": "is there"},
        ),
    ],
)
def test_the_settings_of_a_client_are_read(
    client: str, file: str, text: str, expected: dict[str, str], home: Path
) -> None:
    found = options(client, {file: text}, home)
    assert {name: found.get(name) for name in expected} == expected
    assert "http://0.0.0.0/" not in found.values()
    assert "hunter2" not in found.values() or client == "cargo"


@pytest.mark.parametrize(
    ("variable", "value", "client", "option"),
    [
        ("GOPROXY", MIRROR, "go", "GOPROXY"),
        ("CARGO_REGISTRIES_CORP_INDEX", f"sparse+{MIRROR}", "cargo", "registries.corp.index"),
        ("BUNDLE_MIRROR__ALL", MIRROR, "bundler", "BUNDLE_MIRROR__ALL"),
        ("PIP_INDEX_URL", MIRROR, "pip", "index-url"),
        ("HEX_MIRROR", MIRROR, "hex", "HEX_MIRROR"),
    ],
)
def test_variables_of_a_client_count_too(
    variable: str, value: str, client: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert client_settings().options[client][option] == value


@pytest.mark.parametrize(
    ("client", "file"),
    [
        ("cargo", ".cargo/config.toml"),
        ("go", ".config/go/env"),
        ("maven", ".m2/settings.xml"),
        ("bundler", ".bundle/config"),
        ("composer", ".config/composer/config.json"),
        ("hex", ".hex/hex.config"),
        ("nuget", ".nuget/NuGet/NuGet.Config"),
    ],
)
def test_a_broken_file_is_left_out(client: str, file: str, home: Path) -> None:
    assert MIRROR not in options(client, {file: f"{{[<: {MIRROR}"}, home).values()
