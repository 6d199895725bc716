"""The image with all agents: Node 22, their programs, nothing of the host's."""

import pytest

from contracts.agents import AGENTS
from contracts.sandbox import Command
from flows.execution.toolchain import agents_image
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import ensure_image, is_current
from tests.support.waiting import wait_until

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("node --version", "v22."),
        ("claude --version", "2.1.329"),
        ("pi --version", "1.3.0"),
        ("opencode --version", "1.18.33"),
        ("codex-acp --version", "2.6.0"),
        ("qwen --version", "0.24.4"),
        ("gemini --version", "0.61.0"),
        ("goose-binary-linux-x64 --version", "1.52.0"),
        ("fd --version", "fd"),
        ("python3 -m pytest --version", "pytest"),
        ("id -un", "agent"),
    ],
)
def test_the_image_has_the_programs(agents_sandbox: DockerSandbox, line: str, told: str) -> None:
    result = agents_sandbox.exec(Command(argv=("sh", "-c", line)))
    assert result.ok
    assert told in result.text


def test_the_image_has_no_certificates_of_the_host(agents_sandbox: DockerSandbox) -> None:
    look = "find / -name host-ca.pem -not -path '/proc/*' 2>/dev/null; env | grep -c CA_CERTS"
    result = agents_sandbox.exec(Command(argv=("sh", "-c", look)))
    assert result.stdout.decode().split() == ["0"]
    with DockerEngine().client("look for the stage that fetched") as client:
        stage = {"dangling": True, "label": "harness.stage=fetched"}
        wait_until(lambda: not client.images.list(filters=stage))  # others may be building, too


def test_an_existing_image_is_not_built_again(agents_sandbox: DockerSandbox) -> None:
    lines: list[str] = []
    assert ensure_image(DockerEngine(), agents_image(AGENTS), lines.append)
    assert lines == []
    assert is_current(DockerEngine(), agents_image(AGENTS))
