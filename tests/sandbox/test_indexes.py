"""Package indexes: this machine's own configuration is used inside, its passwords are not."""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from contracts.sandbox import Command, ExecResult
from sandbox.egress import EgressProxy
from sandbox.indexes import INDEXES, NPMRC, ClientSettings, Route, certificates, find_route
from sandbox.routes import AllowList, RouteRefused
from sandbox.scripted import ScriptedSandbox
from sandbox.upstream import upstream_proxy

MIRROR = "https://mirror.example:8443/simple"


def route(
    name: str, *, pip: Mapping[str, str] | None = None, npm: Mapping[str, str] | None = None
) -> Route:
    """The way to one index, in a sandbox whose clients have the default `default.example`."""

    class Asked(ScriptedSandbox):
        def exec(self, command: Command, on_output: object = None) -> ExecResult:
            return ExecResult(exit_code=0, stdout=b"https://default.example/x\n")

    with Asked() as sandbox:
        return find_route([name], ClientSettings(pip=pip or {}, npm=npm or {}), sandbox)


def test_without_configuration_the_hosts_are_those_of_the_client() -> None:
    assert route("python") == Route(("default.example:443",))
    assert route("node") == Route(("default.example:443",))


def test_the_index_that_pip_of_this_machine_uses_is_used_inside() -> None:
    found = route("python", pip={"index-url": MIRROR, "trusted-host": "mirror.example"})
    assert found.hosts == ("mirror.example:8443",)
    assert found.env["PIP_INDEX_URL"] == MIRROR
    assert found.env["PIP_TRUSTED_HOST"] == "mirror.example"


def test_the_registry_of_an_npm_scope_is_used_inside() -> None:
    found = route("node", npm={"@shop:registry": "https://shop.example/npm/"})
    assert found.hosts == ("default.example:443", "shop.example:443")
    assert found.files[NPMRC] == b"@shop:registry=https://shop.example/npm/\n"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("python", {"pip": {"index-url": "https://ann:hunter2@mirror.example/simple"}}),
        (
            "node",
            {
                "npm": {
                    "registry": "https://mirror.example/npm/",
                    "//mirror.example/npm/:_authToken": "hunter2",
                }
            },
        ),
    ],
)
def test_an_index_that_needs_a_password_is_named_and_left_out(
    name: str, options: dict[str, dict[str, str]]
) -> None:
    found = route(name, **options)
    assert (found.hosts, dict(found.env)) == ((), {})
    assert "it needs a password" in found.notices[0]
    assert "hunter2" not in repr(found)


def test_a_folder_of_this_machine_beside_an_index_is_left_out_silently() -> None:
    found = route("python", pip={"extra-index-url": f"file:///srv/wheels {MIRROR}"})
    assert found.hosts == ("default.example:443", "mirror.example:8443")
    assert found.notices == ()


def test_a_folder_of_this_machine_as_the_only_index_is_named_and_left_out() -> None:
    found = route("python", pip={"index-url": "file:///srv/wheels"})
    assert found.hosts == ()
    assert "file:///srv/wheels" in found.notices[0]


def test_only_certificates_are_taken_from_a_file(tmp_path: Path) -> None:
    one = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    key = b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"
    (tmp_path / "both.pem").write_bytes(key + one + one)
    assert certificates([tmp_path / "both.pem", tmp_path / "missing"]) == one


@pytest.mark.parametrize("name", sorted(INDEXES))
@pytest.mark.docker
def test_a_client_of_the_base_image_tells_its_default(
    name: str, docker_sandbox: ScriptedSandbox
) -> None:
    assert find_route([name], ClientSettings(), docker_sandbox).hosts


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
