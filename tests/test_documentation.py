"""What the documentation shows is true: its code runs, its commands and links exist."""

import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import typer
import yaml
from pydantic import BaseModel

from app.cli.main import COMMANDS, command_line
from blueprints.dry_run import dry_run
from blueprints.markdown import parse_markdown
from blueprints.types import Blueprint
from flows.config.mcp import McpServer
from flows.config.memory import MemorySettings
from flows.config.policy import PolicySettings
from flows.config.settings import Settings

ROOT = Path(__file__).parents[1]
MAPS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
"""Pages for people who change the code: they name files."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_ROOMS = "app|flows|blueprints|nodes|policy|memory|sandbox|providers|contracts|migrations|tests"


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of one language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_blueprint_on_a_page_passes_its_check(page: Path) -> None:
    for code in blocks(page, "python"):
        names: dict[str, object] = {}
        exec(compile(code, str(page), "exec"), names)  # noqa: S102 - our own documentation
        found = [value for value in names.values() if isinstance(value, Blueprint)]
        assert all(dry_run(blueprint) for blueprint in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_blueprint_in_markdown_on_a_page_passes_its_check(page: Path) -> None:
    found = [code for code in blocks(page, "markdown") if code.startswith("---\n")]
    assert all(dry_run(parse_markdown(code, page.name)) for code in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_on_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    known = commands()
    for line in "\n".join(blocks(page, "")).splitlines():
        found = re.match(r"(?:\.venv/bin/)?harness (.*)", line)
        if found:
            words = shlex.split(found[1].split("|")[0], comments=True)
            assert words[0] in known or tuple(words[:2]) in known, line


def commands() -> set[object]:
    """Every command, as its name or as the pair of its group's name and its own."""
    root = typer.main.get_command(command_line(*COMMANDS))
    names: set[object] = {"plan"}  # `harness plan PROMPT` is short for `harness plan make PROMPT`
    for name, command in getattr(root, "commands", {}).items():
        inner = getattr(command, "commands", None)
        names |= {(name, sub) for sub in inner} if inner else {name}
    return names


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        ("setting", Settings),
        ("in `[memory]`", MemorySettings),
        ("in `[policy]`", PolicySettings),
        ("in `[mcp.NAME]`", McpServer),
    ],
)
def test_every_setting_is_on_the_page_of_settings(head: str, settings: type[BaseModel]) -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text()
    table = page.partition(f"| {head} |")[2].partition("\n\n")[0]
    told = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)", table))
    assert sorted(set(keys(settings)) - told) == []


def keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """What can be set: `sandbox.image`; of many alike, such as `forges`, the names of one."""
    for name, field in model.model_fields.items():
        inner = [field.annotation, *get_args(field.annotation)]
        models = [one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)]
        if name in {"memory", "policy", "mcp"} and not before:
            continue  # tables of their own
        if not models:
            yield f"{before}{name}"
        for one in models:
            yield from keys(one, f"{before}{name}." if one is field.annotation else "")


def test_the_compose_file_holds_together_and_has_the_versions_of_the_lock() -> None:
    compose = yaml.safe_load((ROOT / "docs/how-to/scale-out/compose.yaml").read_text())
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= services.keys(), name
        used = {volume.split(":")[0] for volume in service.get("volumes", ())}
        assert used <= compose["volumes"].keys(), name
        assert {c["source"] for c in service.get("configs", ())} <= compose["configs"].keys(), name
        opened = service.get("ports", ())
        assert all(port.startswith("${BIND:-127.0.0.1}:") for port in opened), name
    lock = (ROOT / "requirements.lock").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.MULTILINE))
    assert f":{pinned['prefect']}-" in services["api"]["image"]
    assert services["chroma"]["image"].endswith(f":{pinned['chromadb']}")


def test_the_manifest_for_kubernetes_holds_together_and_names_settings_that_exist() -> None:
    manifest = yaml.safe_load((ROOT / "docs/how-to/scale-out/kubernetes.yaml").read_text())
    pod = manifest["spec"]["template"]["spec"]
    claims = manifest["spec"]["volumeClaimTemplates"]
    volumes = {one["name"] for one in pod["volumes"]} | {one["metadata"]["name"] for one in claims}
    mounted = {one["name"] for each in pod["containers"] for one in each["volumeMounts"]}
    assert mounted == volumes
    worker, engine = pod["containers"]
    given = {one["name"]: one["value"] for one in worker["env"]}
    assert f"--host={given.pop('DOCKER_HOST')}" in engine["command"]
    assert {name.removeprefix("HARNESS_").lower() for name in given} <= Settings.model_fields.keys()


def test_the_deployment_for_a_docker_pool_names_a_flow_and_fields_of_its_form() -> None:
    [block] = blocks(ROOT / "docs/how-to/containers.md", "yaml")
    [made] = yaml.safe_load(block)["deployments"]
    flow = pkgutil.resolve_name(made["entrypoint"])
    assert made["parameters"].keys() <= flow.parameters.properties.keys()


def test_the_prefect_server_has_the_same_settings_with_compose_and_without() -> None:
    folder = ROOT / "docs/how-to/scale-out"
    composed = yaml.safe_load((folder / "compose.yaml").read_text())["x-prefect"]["environment"]
    lines = (folder / "server.env").read_text().splitlines()[1:]
    plain = dict(line.split("=", 1) for line in lines)

    def here(value: str) -> str:
        known = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", re.sub(r"\$\{\w+:\?\}", "change-me", value))
        return re.sub(r"(?<=@)postgres(?=/)|(?<=//)redis(?=:)|^redis$", "127.0.0.1", known)

    assert {name: here(value) for name, value in composed.items()} == plain


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_every_file_that_a_map_names_exists(page: Path) -> None:
    named = re.findall(rf"`((?:{_ROOMS})/[\w./-]*)`", page.read_text())
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_every_module_or_name_that_a_map_names_can_be_imported(page: Path) -> None:
    for dotted in re.findall(rf"`((?:{_ROOMS})\.[\w.]+)`", page.read_text()):
        pkgutil.resolve_name(dotted)


def test_the_glossary_has_at_most_sixty_words() -> None:
    glossary = MAPS[0].read_text().partition("## Glossary")[2]
    assert len(re.findall(r"^\| \w", glossary, re.MULTILINE)) <= 61  # the head of the table is one
