"""`harness env`: kept environments, listed and removed."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from contracts.sandbox import SnapshotId
from sandbox.environments import Environment
from tests.support.app import Harness

KEPT = Environment(
    key="0123456789abcdef",
    commit="fedcba9876543210",
    repository="/src/shop",
    image=SnapshotId("sha256:" + 64 * "0"),
    install=("npm", "ci"),
    seconds=12.5,
    size=3 << 20,
    created="2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def name(own_home: Path) -> str:
    """The name of an environment of this home, whose image is gone."""
    folder = own_home / "environments" / KEPT.key
    folder.mkdir(parents=True)
    (folder / f"{KEPT.commit}.json").write_text(json.dumps(asdict(KEPT)))
    return KEPT.name


def test_environments_are_listed_with_size_and_age(asked: Harness, name: str) -> None:
    listed = asked("env", "list").stdout
    assert f"{name}  /src/shop   3 MB  12.5 s        0 h ago" in listed
    (document,) = json.loads(asked("env", "list", "--json").stdout)
    assert (document["name"], document["size"]) == (name, 3 << 20)


def test_an_environment_is_shown_with_its_install_command(asked: Harness, name: str) -> None:
    assert "install: npm ci" in asked("env", "show", name).stdout


def test_an_unknown_environment_is_refused_in_one_line(asked: Harness, name: str) -> None:
    done = asked("env", "rm", "other")
    assert done.returncode == 2
    assert done.stderr == "error: no environment 'other': `harness env list` shows them\n"


@pytest.mark.docker
@pytest.mark.parametrize("words", [("rm", KEPT.name), ("prune", "--all")])
def test_an_environment_is_removed(asked: Harness, name: str, words: tuple[str, ...]) -> None:
    assert asked("env", *words).returncode == 0
    assert json.loads(asked("env", "list", "--json").stdout) == []
