"""Package indexes: this machine's own configuration is used inside, its passwords are not."""

import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from contracts.sandbox import Command, ExecResult
from sandbox.egress import EgressProxy
from sandbox.index_routes import (
    BUNDLE_CONFIG,
    COMPOSER_HOME,
    GEMRC,
    NPMRC,
    Route,
)
from sandbox.indexes import INDEXES, ClientSettings, certificates, find_route
from sandbox.routes import AllowList, RouteRefused
from sandbox.scripted import ScriptedSandbox
from sandbox.upstream import upstream_proxy
from tests.support.wheel_index import HOST, resolve_here

MIRROR = "https://mirror.example:8443/simple"
SECRET = "https://ann:hunter2@mirror.example/simple"
CLIENTS = {
    "python": "pip", "node": "npm", "go": "go", "rust": "cargo", "java": "maven", "ruby": "bundler",
    "php": "composer", "gradle": "gradle", "elixir": "hex", "dotnet": "nuget",
}  # fmt: skip


def route(name: str, *, printed: str = "https://default.example/x\n", **options: str) -> Route:
    """The way to one index, in a sandbox whose client prints this when it is asked for defaults."""

    class Asked(ScriptedSandbox):
        def exec(self, command: Command, on_output: object = None) -> ExecResult:
            home = command.argv[-1].endswith('"$HOME"')
            return ExecResult(exit_code=0, stdout=b"/home/a" if home else printed.encode())

    with Asked() as sandbox:
        return find_route([name], ClientSettings(options={CLIENTS[name]: options}), sandbox)


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_without_configuration_the_hosts_are_those_of_the_client(name: str) -> None:
    assert route(name) == Route(("default.example:443",))


def test_the_index_that_pip_of_this_machine_uses_is_used_inside() -> None:
    found = route("python", **{"index-url": MIRROR, "trusted-host": "mirror.example"})
    assert found.hosts == ("mirror.example:8443",)
    assert found.env["PIP_INDEX_URL"] == MIRROR
    assert found.env["PIP_TRUSTED_HOST"] == "mirror.example"


def test_the_registry_of_an_npm_scope_is_used_inside() -> None:
    found = route("node", **{"@shop:registry": "https://shop.example/npm/"})
    assert found.hosts == ("default.example:443", "shop.example:443")
    assert found.files[NPMRC] == b"@shop:registry=https://shop.example/npm/\n"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("python", {"index-url": SECRET}),
        ("node", {"registry": "https://m.example/npm/", "//m.example/npm/:_authToken": "hunter2"}),
        ("go", {"GOPROXY": f"{SECRET},{MIRROR}"}),
        (
            "rust",
            {
                "source.crates-io.replace-with": "m",
                "registries.m.index": "sparse+https://m.example/index/",
                "registries.m.token": "hunter2",
            },
        ),
        (
            "java",
            {"mirror.m.url": MIRROR, "mirror.m.mirrorOf": "*,!shop", "server.m": "has a password"},
        ),
        ("ruby", {"BUNDLE_MIRROR__ALL": "https://m.example/", "BUNDLE_M__EXAMPLE": "ann:hunter2"}),
        ("php", {"packagist": MIRROR, "http-basic.mirror.example": "is there"}),
        ("gradle", {"repositories": MIRROR, "with-password": MIRROR}),
        ("elixir", {"HEX_MIRROR": SECRET}),
        ("dotnet", {"source.corp": MIRROR, "password.corp": "is there"}),
    ],
)
def test_an_index_that_needs_a_password_is_named_and_left_out(
    name: str, options: dict[str, str]
) -> None:
    found = route(name, **options)
    assert (found.hosts, dict(found.env), dict(found.files)) == ((), {}, {})
    assert "it needs a password" in found.notices[0]
    assert "hunter2" not in repr(found)


def test_go_uses_the_proxies_of_this_machine_and_its_own_checksum_database() -> None:
    asked = "https://proxy.example,direct\nhttps://sum.example\n"
    found = route("go", printed=asked, GOPROXY=f"{MIRROR}|direct", GONOSUMDB="corp.example")
    assert found.hosts == ("mirror.example:8443", "sum.example:443")
    assert found.env == {"GOPROXY": MIRROR, "GONOSUMDB": "corp.example"}


@pytest.mark.parametrize("setting", ["direct", "off"])
def test_without_a_proxy_on_this_machine_go_asks_no_other(setting: str) -> None:
    found = route("go", GOPROXY=setting)
    assert found.hosts == ()
    assert f"GOPROXY={setting}" in found.notices[0]


def test_cargo_uses_the_source_that_replaces_its_index_on_this_machine() -> None:
    url = f"sparse+{MIRROR}/"
    options = {"source.crates-io.replace-with": "m", "source.m.registry": url}
    found = route("rust", **options)
    assert found.hosts == ("mirror.example:8443",)
    assert found.files["/home/a/.cargo/config.toml"].decode().splitlines() == [
        f'"source"."m"."registry" = "{url}"',
        '"source"."crates-io"."replace-with" = "m"',
    ]


def test_maven_uses_the_mirror_of_its_central_repository() -> None:
    options = {
        "mirror.shop.url": "https://shop.example/maven",
        "mirror.shop.mirrorOf": "shop",
        "mirror.all.url": MIRROR,
        "mirror.all.mirrorOf": "external:*",
    }
    found = route("java", **options)
    assert found.hosts == ("mirror.example:8443", "shop.example:443")
    settings = found.files["/home/a/.m2/settings.xml"].decode()
    assert f"<id>all</id><mirrorOf>external:*</mirrorOf><url>{MIRROR}</url>" in settings


def test_gradle_uses_the_repositories_of_this_machine_and_the_wrapper_its_distributions() -> None:
    asked = "https://gradle.example/distributions https://plugins.example/m2"
    found = route("gradle", printed=asked, repositories=f"{MIRROR} https://shop.example/$1")
    assert found.hosts == ("gradle.example:443", "mirror.example:8443", "shop.example:443")
    (script,) = found.files.values()
    assert script.startswith(f'def mirrors = ["{MIRROR}", "https://shop.example/\\$1"]'.encode())


def test_a_host_that_an_index_leads_to_is_opened_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moved(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path.endswith(".zip") else 204)
            self.send_header("Location", f"http://{HOST}:{server.server_port}/files")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    resolve_here(monkeypatch)
    with ThreadingHTTPServer(("127.0.0.1", 0), Moved) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = route("gradle", printed=f"http://127.0.0.1:{server.server_port}/distributions")
        server.shutdown()
    assert found.hosts[1:] == (f"{HOST}:{server.server_port}",)


def test_mix_and_hex_use_the_mirrors_of_this_machine() -> None:
    mirrors = {"HEX_MIRROR": MIRROR, "HEX_BUILDS_URL": "https://builds.example"}
    found = route("elixir", **mirrors)
    assert found.hosts == ("mirror.example:8443", "builds.example:443")
    assert found.env == mirrors


def test_nuget_uses_the_sources_of_this_machine() -> None:
    found = route("dotnet", **{"source.corp": MIRROR, "source.old": "http://old.example/v3"})
    assert found.hosts == ("mirror.example:8443", "old.example:80")
    assert found.files["/home/a/.nuget/NuGet/NuGet.Config"].decode() == (
        f'<configuration><packageSources><clear /><add key="corp" value="{MIRROR}" />'
        '<add key="old" value="http://old.example/v3" allowInsecureConnections="true" />'
        "</packageSources></configuration>"
    )


@pytest.mark.parametrize("key", ["BUNDLE_MIRROR__ALL", "BUNDLE_MIRROR__HTTPS://DEFAULT__EXAMPLE/"])
def test_bundler_uses_the_mirror_of_its_index_and_gem_its_sources(key: str) -> None:
    asked = "https://default.example\nhttps://index.example\n"
    found = route("ruby", printed=asked, **{key: MIRROR, "sources": "https://gems.example/"})
    assert found.hosts == ("mirror.example:8443", "gems.example:443")
    assert found.files[BUNDLE_CONFIG].decode() == f'---\n{key}: "{MIRROR}"\n'
    assert found.files[GEMRC].decode() == "---\n:sources:\n- https://gems.example/\n"


@pytest.mark.parametrize("name", ["packagist", "repositories.0"])
def test_composer_uses_the_index_in_place_of_its_own(name: str) -> None:
    found = route("php", **{"packagist": "false", name: MIRROR})
    assert found.hosts == ("mirror.example:8443",)
    config = json.loads(found.files[f"{COMPOSER_HOME}/config.json"])
    assert config["repositories"] == [
        {"type": "composer", "url": MIRROR},
        {"packagist": False},
    ]


def test_a_folder_of_this_machine_beside_an_index_is_left_out_silently() -> None:
    found = route("python", **{"extra-index-url": f"file:///srv/wheels {MIRROR}"})
    assert found.hosts == ("default.example:443", "mirror.example:8443")
    assert found.notices == ()


def test_a_folder_of_this_machine_as_the_only_index_is_named_and_left_out() -> None:
    found = route("python", **{"index-url": "file:///srv/wheels"})
    assert found.hosts == ()
    assert "file:///srv/wheels" in found.notices[0]


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_no_program_that_a_repository_names_answers_for_a_client(name: str) -> None:
    asked: list[str] = []

    class Asked(ScriptedSandbox):
        def exec(self, command: Command, on_output: object = None) -> ExecResult:
            asked.extend(command.argv)
            return ExecResult(exit_code=0)

    with Asked() as sandbox:
        find_route([name], ClientSettings(), sandbox)
    (path,) = (word for word in asked if word.startswith("PATH="))
    images = Path(__file__).parents[2] / "sandbox" / "images"
    dockerfile = (images / "toolchain.Dockerfile").read_text()
    (theirs,) = re.findall(r"COPY --from=fetched \S+ (\S+)", dockerfile)
    assert asked[:2] == ["env", "-i"]
    assert not any(folder.startswith(theirs) for folder in path.removeprefix("PATH=").split(":"))


@pytest.mark.parametrize("url", ["ftp://m.example/", "http://[", "http://m.example:none/", "here"])
def test_an_index_that_is_no_url_is_named_and_left_out(url: str) -> None:
    found = route("go", GOPROXY=url)
    assert found.hosts == ()
    assert "it is no URL" in found.notices[0]


def test_only_certificates_are_taken_from_a_file(tmp_path: Path) -> None:
    one = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    key = b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"
    (tmp_path / "both.pem").write_bytes(key + one + one)
    assert certificates([tmp_path / "both.pem", tmp_path / "missing"]) == one


def test_a_trusted_name_may_lead_to_this_machine_and_others_may_not() -> None:
    routes = AllowList(["localhost:80"], trusted=["localhost:8080"])
    assert routes.resolve("localhost", 8080)
    with pytest.raises(RouteRefused):
        routes.resolve("localhost", 80)


@pytest.mark.parametrize(
    ("host", "no_proxy", "is_used"),
    [
        ("a.example", "", True),
        ("a.example", "example", False),
        ("a.example", ".example, b", False),
        ("a.example", "*", False),
        ("an-example", "example", True),
    ],
)
def test_no_proxy_names_hosts_that_are_reached_directly(
    host: str, no_proxy: str, is_used: bool
) -> None:
    proxies = {"https": "http://proxy.example:3128", "no": no_proxy}
    assert (upstream_proxy(proxies, host, 443) is not None) is is_used


def test_a_trusted_host_is_reached_through_the_proxy_of_this_machine() -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                asked.append(client.recv(4096))
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                client.recv(4096)
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        proxy = f"http://ann:hunter2@127.0.0.1:{listener.getsockname()[1]}"
        trusted = ["mirror.example:80"]
        with (
            EgressProxy([], lambda _: None, trusted=trusted, proxies={"http": proxy}) as egress,
            egress.connect() as client,
        ):
            client.sendall(b"GET http://mirror.example/ HTTP/1.1\r\nHost: mirror.example\r\n\r\n")
            answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 204")
    assert asked[0].startswith(b"CONNECT mirror.example:80 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic YW5uOmh1bnRlcjI=" in asked[0]
