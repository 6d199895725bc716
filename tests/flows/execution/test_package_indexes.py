"""Real package clients in a sandbox use the indexes that this machine's own clients use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.sandbox import Command
from flows.config.settings import SandboxSettings
from flows.execution.egress import open_way_out
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_RECIPE, ensure_image, toolchain_recipe
from sandbox.indexes import INDEXES, ClientSettings, find_route
from sandbox.spec import SandboxSpec
from tests.support.package_indexes import CLIENTS, package_index
from tests.support.sandboxes import OWNER
from tests.support.self_signed import self_signed
from tests.support.wheel_index import HOST, resolve_here

pytestmark = pytest.mark.docker

# Gradle takes many seconds to begin, and trusts the same certificates as Maven.
CASES = [(name, "http") for name in sorted(CLIENTS)] + [
    (name, "https") for name in sorted(CLIENTS) if name != "gradle"
]


@pytest.fixture(scope="module")
def image() -> str:
    """One image with the clients of all ecosystems, without compilers."""
    names = (
        "cargo-web", "golang-go", "maven", "gradle", "bundler", "composer", "unzip", "elixir",
    )  # fmt: skip
    return ensure_image(DockerEngine(), toolchain_recipe(BASE_RECIPE, names), print)


@pytest.fixture
def sandbox(image: str) -> Iterator[DockerSandbox]:
    spec = SandboxSpec(image=image, owner=OWNER, run_id="test")
    with DockerSandbox.start(DockerEngine(), spec) as started:
        yield started


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_a_client_installs_from_the_index_of_this_machine(
    name: str, scheme: str, sandbox: DockerSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CLIENTS[name]
    resolve_here(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    file, settings = client.settings
    certificate = self_signed(tmp_path, HOST) if scheme == "https" else None
    if certificate:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with package_index(client.files, certificate) as url:
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(settings.replace("{url}", url))
        sandbox.upload_files({k: text.encode() for k, text in client.project.items()})
        with open_way_out(
            sandbox, SandboxSettings(), (), indexes=[name], on_event=lambda _: None
        ) as env:
            installed = sandbox.exec(Command(argv=("sh", "-ec", client.install), env=env))
    assert installed.ok, installed.text


def test_each_client_tells_its_default_index(sandbox: DockerSandbox) -> None:
    indexes = INDEXES - {"dotnet"}  # Debian has no .NET
    found = {name: find_route([name], ClientSettings(), sandbox).hosts for name in indexes}
    # A namespace or a licence in what a client prints would be a host too.
    assert found.pop("rust")  # only its index tells where it keeps its files
    assert len(found.pop("gradle")) >= 5  # where its distributions are, only their host tells
    assert {name: len(hosts) for name, hosts in found.items()} == {
        "elixir": 1, "go": 2, "java": 1, "node": 1, "php": 3, "python": 2, "ruby": 2,
    }  # fmt: skip
