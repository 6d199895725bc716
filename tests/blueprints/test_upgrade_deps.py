"""upgrade-deps on small real repositories, with plain functions for agents."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from sandbox.scripted import ScriptedSandbox
from tests.support.built_in import BROKEN, GOOD_SHOP, SHOP, Agent, change, run, statuses
from tests.support.git_repos import run_git
from tests.support.workspace import folder, put_repo


def test_upgrade_deps_commits_an_upgrade_that_passes_the_tests(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox, GOOD_SHOP)
    report = run("upgrade-deps", sandbox, Agent(change("requirements.txt", "redis==6.0\n")))
    assert report.status == "success"
    assert run_git(repo, "show", "--format=", "--name-only", "HEAD") == "requirements.txt"


def test_upgrade_deps_prompts_with_files_and_versions(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, GOOD_SHOP)
    agent = Agent(change("requirements.txt", "redis==6.0\n"))
    run("upgrade-deps", sandbox, agent, versions="redis==6.0")
    assert "requirements.txt" in agent.prompts["upgrade"]
    assert "redis==6.0" in agent.prompts["upgrade"]


def test_upgrade_deps_stops_when_tests_fail_before(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, SHOP)
    agent = Agent()
    assert statuses(run("upgrade-deps", sandbox, agent))["baseline"] == "failure"
    assert agent.prompts == {}


def test_upgrade_deps_fails_when_the_upgrade_breaks_the_tests(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox, GOOD_SHOP)
    broke = {"requirements.txt": "redis==6.0\n", "src/shop/__init__.py": BROKEN}
    assert statuses(run("upgrade-deps", sandbox, Agent(broke)))["verify"] == "failure"
    assert run_git(repo, "rev-list", "--count", "HEAD") == "1"


def test_upgrade_deps_fails_when_nothing_was_upgraded(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox, GOOD_SHOP)
    assert "nothing was changed" in (run("upgrade-deps", sandbox, Agent()).error or "")


def test_upgrade_deps_fails_without_dependency_files(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    assert "no dependency files" in (run("upgrade-deps", sandbox, Agent()).error or "")


@pytest.fixture
def wheels(tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of a run that can install two versions of `tides`."""
    for version in ("1.0", "2.0"):
        about = f"tides-{version}.dist-info"
        with ZipFile(tmp_path / f"tides-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("tides.py", f"VERSION = {version!r}\n")
            wheel.writestr(
                f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tides\nVersion: {version}\n"
            )
            wheel.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{about}/RECORD", "")
    proxy = {"HTTPS_PROXY": "http://127.0.0.1:9"}
    return {**proxy, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}


HARBOUR = {
    "harbour.py": "import tides\n",
    "test_harbour.py": "import harbour\ndef test_it(): assert harbour.tides.VERSION\n",
    "requirements.txt": "tides==1.0\n",
}


@pytest.mark.parametrize(("requested", "status"), [("2.0", "success"), ("999.0", "failure")])
def test_upgrade_deps_fails_when_the_new_version_cannot_be_installed(
    sandbox: ScriptedSandbox, wheels: Mapping[str, str], requested: str, status: str
) -> None:
    put_repo(sandbox, HARBOUR)
    agent = Agent(change("requirements.txt", f"tides=={requested}\n"))
    assert run("upgrade-deps", sandbox, agent, env=wheels).status == status
    assert (
        f"VERSION = '{requested if status == 'success' else '1.0'}'"
        in (folder(sandbox) / ".git/harness-site/tides.py").read_text()
    )


def test_upgrade_deps_fails_when_the_first_install_fails(
    sandbox: ScriptedSandbox,
) -> None:
    text = "[build-system]\nrequires = ['nope']\nbuild-backend = 'nope'\n"
    put_repo(sandbox, {**GOOD_SHOP, "pyproject.toml": text})
    agent = Agent()
    assert "--set install=" in (run("upgrade-deps", sandbox, agent).error or "")
    assert agent.prompts == {}


@pytest.mark.parametrize(("requested", "status"), [("5.1", "success"), ("999.0", "failure")])
def test_upgrade_deps_without_tests_commits_only_what_can_be_installed(
    sandbox: ScriptedSandbox, requested: str, status: str
) -> None:
    repo = put_repo(sandbox, {"requirements.txt": "redis==5.0\n"})
    agent = Agent(change("requirements.txt", f"redis=={requested}\n"))
    report = run("upgrade-deps", sandbox, agent, install="grep redis==5 requirements.txt", test="")
    assert report.status == status
    assert run_git(repo, "rev-list", "--count", "HEAD") == ("2" if status == "success" else "1")
