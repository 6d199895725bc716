"""The base image: here at once or built, and enough to install and test a project offline."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts.errors import ImageUnavailable
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import (
    BASE_IMAGE,
    BASE_RECIPE,
    RECIPE_LABEL,
    ImageRecipe,
    build_output,
    ensure_image,
    toolchain_recipe,
)
from sandbox.spec import SandboxSpec


def test_the_recipe_is_a_short_digest() -> None:
    assert len(BASE_RECIPE.recipe()) == 16
    assert BASE_RECIPE.recipe() == BASE_RECIPE.recipe()


def test_a_failed_build_reports_its_last_line() -> None:
    events: list[dict[str, object]] = [
        {"stream": "Step 1\n\n"},
        {"aux": {}},
        {"stream": "E: Unable to locate package"},
        {"error": "returned a non-zero code"},
    ]
    lines = build_output(iter(events))

    assert [next(lines), next(lines)] == ["Step 1", "E: Unable to locate package"]
    with pytest.raises(ImageUnavailable, match="Unable to locate package"):
        next(lines)


def test_a_failed_build_reports_the_program_s_last_line_not_docker_s() -> None:
    events: list[dict[str, object]] = [
        {"stream": "\x1b[91mE: Unable to locate package nope\x1b[0m\n"},
        {"stream": "\x1b[0m\n"},
        {"stream": "Removing intermediate container 12\n"},
        {"error": "returned a non-zero code"},
    ]
    with pytest.raises(ImageUnavailable, match=r"failed: E: Unable to locate package nope$"):
        list(build_output(iter(events)))


def test_a_toolchain_is_the_same_image_in_any_order_of_packages() -> None:
    one, other = (toolchain_recipe(BASE_RECIPE, names) for names in (["a", "b"], ["b", "a", "b"]))
    assert (one, one.recipe()) == (other, other.recipe())


def test_other_packages_are_another_image() -> None:
    one, other = (toolchain_recipe(BASE_RECIPE, [name]) for name in "ab")
    assert one.name != other.name
    assert one.recipe() != other.recipe()


def test_without_packages_the_image_is_the_one_below() -> None:
    assert toolchain_recipe(BASE_RECIPE, ()) is BASE_RECIPE


@pytest.mark.docker
def test_packages_of_debian_and_npm_are_in_the_image_and_run_no_install_scripts() -> None:
    recipe = toolchain_recipe(BASE_RECIPE, ["less", "npm:node@20", "npm:esbuild@0.21.5"])
    engine = DockerEngine()
    try:
        spec = SandboxSpec(
            image=ensure_image(engine, recipe, print), owner="test-images", run_id="r-1"
        )
        with DockerSandbox.start(engine, spec) as made:
            found = inside(made, "id -un; command -v less; command -v node; node --version")
            # Its install script puts a program in the place of this one.
            script = inside(made, "head -c 2 /opt/npm/lib/node_modules/esbuild/bin/esbuild")
    finally:
        with engine.client("remove the image of a test") as client:
            client.images.remove(recipe.name)

    user, less, node, version = found.split()
    assert (user, less, node) == ("agent", "/usr/bin/less", "/opt/npm/bin/node")
    assert version.startswith("v20.")
    assert script == "#!"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[DockerSandbox]:
    engine = DockerEngine()
    image = ensure_image(engine, BASE_RECIPE, print)
    spec = SandboxSpec(image=image, owner="test-images", run_id="r-1")
    sandbox = DockerSandbox.start(engine, spec)
    yield sandbox
    sandbox.teardown()


def inside(sandbox: DockerSandbox, line: str) -> str:
    result = sandbox.exec(Command(argv=("sh", "-ec", line)))
    assert result.ok, result.text
    return result.stdout.decode().strip()


@pytest.mark.docker
def test_an_image_with_the_right_recipe_is_not_built_again(sandbox: DockerSandbox) -> None:
    said: list[str] = []

    assert ensure_image(DockerEngine(), BASE_RECIPE, said.append) == BASE_IMAGE

    assert said == []
    with DockerEngine().client("look at the base image") as client:
        assert client.images.get(BASE_IMAGE).labels[RECIPE_LABEL] == BASE_RECIPE.recipe()


@pytest.mark.docker
def test_processes_that_need_the_same_image_build_it_once(
    sandbox: DockerSandbox, tmp_path: Path
) -> None:
    """Two builds at once end with an error: each removes the stage that the other copies from."""
    stage = (
        "FROM ${BASE} AS fetched\nLABEL harness.stage=fetched\nRUN head -c 9 /dev/urandom > /tmp/x"
    )
    tmp_path.joinpath("Dockerfile").write_text(
        f"ARG BASE\n{stage}\nFROM ${{BASE}}\nCOPY --from=fetched /tmp/x /tmp/x\n"
    )
    recipe = ImageRecipe(
        name="harness-test-built-once:latest",
        files=("Dockerfile",),
        base=BASE_RECIPE,
        folder=tmp_path,
    )
    steps: list[str] = []

    def build(_: int) -> str:
        return ensure_image(DockerEngine(), recipe, steps.append)

    try:
        with ThreadPoolExecutor() as pool:
            assert set(pool.map(build, range(3))) == {recipe.name}
    finally:
        with DockerEngine().client("remove the image of a test") as client:
            client.images.remove(recipe.name)

    assert len([line for line in steps if line.startswith("Successfully tagged")]) == 1


@pytest.mark.docker
@pytest.mark.parametrize(
    "line", ["git --version", "make --version", "rg --version", "node --version", "npm --version"]
)
def test_the_tools_agents_expect_are_there(sandbox: DockerSandbox, line: str) -> None:
    assert inside(sandbox, line)


@pytest.mark.docker
def test_the_user_is_the_agent_and_owns_the_workspace(sandbox: DockerSandbox) -> None:
    assert inside(sandbox, "id -un; id -u; stat -c %U /workspace") == "agent\n1000\nagent"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("backend", "requires"),
    [
        ("setuptools.build_meta", "setuptools"),
        ("hatchling.build", "hatchling"),
        ("flit_core.buildapi", "flit_core"),
        ("poetry.core.masonry.api", "poetry-core"),
    ],
)
def test_a_python_project_installs_and_tests_itself_offline(
    sandbox: DockerSandbox, backend: str, requires: str
) -> None:
    module = f"shop_{requires.replace('-', '_')}"
    pyproject = (
        f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "{backend}"\n'
        f'[project]\nname = "{module}"\nversion = "1"\ndescription = "x"\nauthors = []\n'
        f'[tool.poetry]\nname = "{module}"\nversion = "1"\ndescription = "x"\nauthors = []\n'
    )
    sandbox.upload_files(
        {
            f"{module}/pyproject.toml": pyproject.encode(),
            f"{module}/{module}/__init__.py": b"'''Sells.'''\nPRICE = 2\n",
            f"{module}/test_it.py": f"def test_price():\n    import {module}\n".encode(),
        }
    )

    install = "pip install --quiet --no-build-isolation --no-deps -e ."
    inside(sandbox, f"cd {module}; {install}; cd /; python -c 'import {module}'")
    assert "1 passed" in inside(sandbox, f"cd {module}; python3 -m pytest -q")


@pytest.mark.docker
def test_a_node_project_runs_its_scripts_offline(sandbox: DockerSandbox) -> None:
    sandbox.write_file("web/package.json", b'{"scripts": {"test": "node -p 1+1"}}')

    assert inside(sandbox, "cd web; npm test --silent") == "2"
