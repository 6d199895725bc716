"""The host's environment is full of secrets, and none of them is found inside."""

import json
import os
from collections.abc import Iterator

import pytest

from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.repos import fetch_base
from sandbox.spec import SandboxSpec
from sandbox.workspace import clone_into_sandbox
from tests.support.git_repos import make_repo, run_git

pytestmark = pytest.mark.docker

SECRET = "canary-" + "0f3a91c7d2"
NAMES = (
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "GIT_ASKPASS",
    "DATABASE_URL", "HARNESS_SECRET", "NPM_TOKEN", "SSH_AUTH_SOCK", "PIP_INDEX_URL",
)  # fmt: skip

SEARCH = """
import os, sys
secret, own, found, looked = sys.stdin.read().encode(), str(os.getpid()), [], 0
for top, folders, names in os.walk("/"):
    skipped = ("/sys", "/dev", "/proc/" + own)
    folders[:] = [f for f in folders if os.path.join(top, f) not in skipped]
    for name in names:
        path = os.path.join(top, name)
        try:
            if not os.path.isfile(path) or (top.startswith("/proc") and name.startswith("k")):
                continue
            with open(path, "rb") as file:
                data = file.read(1 << 24)
        except OSError:
            continue
        looked += 1
        if secret in data:
            found.append(path)
print(looked, found)
"""


def set_secrets(patch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        patch.setenv(name, f"{SECRET}-{name}")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    """A sandbox that was started among secrets and has worked."""
    place = tmp_path_factory.mktemp("full")
    with pytest.MonkeyPatch.context() as patch:
        set_secrets(patch)
        repo = make_repo(place / "shop")
        run_git(repo, "config", "http.extraHeader", f"Authorization: {SECRET}")
        run_git(repo, "remote", "add", "origin", f"https://user:{SECRET}@example.test/shop.git")
        base = fetch_base(str(repo), store=place / "store")
        spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-secrets", run_id="r")
        with DockerSandbox.start(DockerEngine(), spec) as sandbox:
            clone_into_sandbox(sandbox, base, "harness/r/fix-tests")
            patch.undo()
            yield sandbox


@pytest.fixture
def full_sandbox(started: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> DockerSandbox:
    """The same for every test, which works with it among secrets too."""
    set_secrets(monkeypatch)
    return started


def search(sandbox: DockerSandbox) -> tuple[int, str]:
    command = Command(argv=("python3", "-c", SEARCH), stdin=SECRET.encode())
    result = sandbox.exec(command)
    looked, _, found = result.text.partition(" ")
    return int(looked), found


def test_no_secret_is_in_the_environment_in_proc_or_in_any_file(
    full_sandbox: DockerSandbox,
) -> None:
    assert os.environ["ANTHROPIC_API_KEY"].startswith(SECRET)
    env = full_sandbox.exec(Command(argv=("env",)))
    assert SECRET not in env.text
    looked, found = search(full_sandbox)
    assert looked > 5000
    assert found == "[]"


def test_no_secret_is_in_the_container_or_the_image_as_docker_tells_them(
    full_sandbox: DockerSandbox,
) -> None:
    engine = DockerEngine()
    with engine.client("look at what docker tells") as client:
        container = client.api.inspect_container(full_sandbox.container_id)
        image = client.api.inspect_image(BASE_IMAGE), client.api.history(BASE_IMAGE)
    assert SECRET not in json.dumps((container, image))


def test_a_snapshot_keeps_no_variable_of_a_command_and_the_search_would_find_it(
    full_sandbox: DockerSandbox,
) -> None:
    command = Command(argv=("sh", "-c", 'test -n "$TOKEN"'), env={"TOKEN": SECRET})
    assert full_sandbox.exec(command).ok
    snapshot = full_sandbox.snapshot()
    with DockerEngine().client("look at the snapshot") as client:
        told = client.api.inspect_image(snapshot), client.api.history(snapshot)
    assert SECRET not in json.dumps(told)
    full_sandbox.restore(snapshot)
    full_sandbox.write_file("left-behind", f"x={SECRET}".encode())
    assert search(full_sandbox)[1] == "['/workspace/left-behind']"
