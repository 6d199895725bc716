"""Blueprints are found by name, in files and in packages, and never in the target repository."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blueprints.find import find_blueprint, installed_blueprints, installed_names, short_name
from blueprints.types import Blueprint
from contracts.errors import BlueprintInvalid, BlueprintNotFound

GOOD = """
from blueprints.dsl import blueprint, deterministic
from nodes.commands import command

rollback = blueprint("rollback", "Undo", [deterministic("a", "", command("true"))])
other = 3
"""
EMPTY = "from blueprints.dsl import blueprint\nbad = blueprint('bad', '', [])\n"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A user's own blueprint, in a file."""
    return write(tmp_path / "ops" / "deploy.py", GOOD)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder in which packages can be installed."""
    place = tmp_path / "packages"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    yield place
    for name in [name for name in sys.modules if name.startswith("acme")]:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def install(place: Path, package: str, entry: str, source: str = GOOD) -> None:
    write(place / package / "__init__.py", source)
    info = place / f"{package}-1.0.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    write(info / "entry_points.txt", f"[harness.blueprints]\n{entry}\n")


def refused(ref: str, *, repo: Path | None = None) -> str:
    with pytest.raises(BlueprintInvalid) as caught:
        find_blueprint(ref, repo=None if repo is None else str(repo))
    return str(caught.value)


@pytest.mark.parametrize("name", ["fix-tests", "implement", "review", "upgrade-deps"])
def test_a_built_in_blueprint_is_found_by_its_name(name: str) -> None:
    assert find_blueprint(name).name == name


@pytest.mark.parametrize("ref", ["tidy", "ops/a.py:tidy", "acme.ops:tidy", "ops/tidy.md"])
def test_a_reference_has_a_short_name(ref: str) -> None:
    assert short_name(ref) == "tidy"


def test_all_built_in_blueprints_are_installed() -> None:
    assert installed_blueprints().keys() >= {"fix-tests", "implement", "review"}


def test_names_are_listed_without_an_import(packages: Path) -> None:
    install(packages, "acme_a", "mine = acme_a:rollback", "raise RuntimeError")
    assert "mine" in installed_names()


def test_a_blueprint_in_a_file_is_found(deploy: Path) -> None:
    assert find_blueprint(f"{deploy}:rollback").name == "rollback"


def test_a_relative_file_starts_at_the_current_folder(
    deploy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(deploy.parent)
    assert find_blueprint("./deploy.py:rollback").name == "rollback"


def test_a_changed_file_is_read_anew(deploy: Path) -> None:
    find_blueprint(f"{deploy}:rollback")
    write(deploy, GOOD.replace('"rollback"', '"roll-forward"'))
    assert find_blueprint(f"{deploy}:rollback").name == "roll-forward"


def test_a_blueprint_file_may_hold_dataclasses(tmp_path: Path) -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int' = 1\n"
    file = write(tmp_path / "a.py", f"from __future__ import annotations\n{text}{GOOD}")
    assert find_blueprint(f"{file}:rollback").name == "rollback"


def test_a_blueprint_in_a_package_is_found(packages: Path) -> None:
    write(packages / "acme_b" / "__init__.py", "")
    write(packages / "acme_b" / "ops.py", GOOD)
    assert find_blueprint("acme_b.ops:rollback").name == "rollback"


def test_an_installed_blueprint_is_found_by_its_name(packages: Path) -> None:
    install(packages, "acme_c", "mine = acme_c:rollback")
    assert find_blueprint("mine").name == "rollback"


@pytest.mark.parametrize(
    "ref",
    [
        "nope", "./nope.py:x", "nope.module:x", "fix_tests:", ":x", "a b:x", "",
        "~nosuchuser/x.py:y", "x\udcff.py:y", f"{'a' * 300}.py:y", "__main__:x",
    ],
)  # fmt: skip
def test_an_unknown_reference_lists_the_known_names(ref: str) -> None:
    with pytest.raises(
        BlueprintNotFound, match=r"Known: .*fix-tests, implement, release-notes, review"
    ):
        find_blueprint(ref)


def test_a_deleted_working_directory_has_no_blueprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BlueprintNotFound):
        find_blueprint("deploy.py:rollback")


def test_a_typo_gets_a_hint() -> None:
    with pytest.raises(BlueprintNotFound, match="Did you mean 'fix-tests'"):
        find_blueprint("fix-test")


def test_a_file_without_an_attribute_gets_a_hint(deploy: Path) -> None:
    with pytest.raises(BlueprintNotFound, match=r"as in '.*deploy\.py:name'"):
        find_blueprint(str(deploy))


def test_an_unknown_attribute_lists_the_blueprints_of_the_file(deploy: Path) -> None:
    assert refused(f"{deploy}:nope").endswith("its blueprints: rollback")


def test_an_attribute_of_another_type_is_refused(deploy: Path) -> None:
    assert "is of type int, not a Blueprint" in refused(f"{deploy}:other")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('went\\nwrong')", "RuntimeError: went"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def (", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (EMPTY, "a.py:2: blueprint 'bad' has no nodes"),
    ],
)
def test_a_file_that_raises_gives_one_line(tmp_path: Path, source: str, said: str) -> None:
    message = refused(f"{write(tmp_path / 'a.py', source)}:x")
    assert said in message
    assert "\n" not in message


def test_the_error_of_a_file_is_the_cause(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py", "1 / 0")
    with pytest.raises(BlueprintInvalid) as caught:
        find_blueprint(f"{file}:x")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_broken_package_gives_one_line(packages: Path) -> None:
    install(packages, "acme_d", "mine = acme_d:rollback", "raise RuntimeError('broken')")
    said = "__init__.py:1: 'mine' raised while it was loaded: RuntimeError: broken"
    assert refused("mine").endswith(said)


def test_a_broken_installed_package_does_not_hide_the_others(packages: Path) -> None:
    install(packages, "acme_e", "mine = acme_e:rollback", "raise RuntimeError('broken')")
    known = installed_blueprints()
    assert isinstance(known["fix-tests"], Blueprint)
    assert str(known["mine"]) == refused("mine")


def test_two_packages_with_the_same_name_are_both_listed(packages: Path) -> None:
    install(packages, "acme_e", "mine = acme_e:rollback")
    install(packages, "acme_f", "mine = acme_f:rollback")
    assert "'acme_e' and 'acme_f'" in refused("mine")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a target repository with a file that must not be loaded."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    write(tmp_path / "repo" / "ops" / "evil.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n{GOOD}")
    return tmp_path / "repo"


def test_a_file_in_the_target_repository_is_refused(repo: Path) -> None:
    assert "inside the target repository" in refused(f"{repo}/ops/evil.py:rollback", repo=repo)


def test_a_refused_file_is_not_run(repo: Path) -> None:
    refused(f"{repo}/ops/evil.py:rollback", repo=repo)
    assert not (repo.parent / "ran").exists()


def test_a_link_into_the_target_repository_is_refused(repo: Path) -> None:
    link = repo.parent / "link.py"
    link.symlink_to(repo / "ops" / "evil.py")
    assert "inside the target" in refused(f"{link}:rollback", repo=repo)


def test_a_link_out_of_the_target_repository_is_refused(repo: Path, deploy: Path) -> None:
    (repo / "outside").symlink_to(deploy.parent)
    assert "inside the target" in refused(f"{repo}/outside/deploy.py:rollback", repo=repo)


def test_a_target_named_by_a_link_or_a_folder_in_it_is_the_same_repository(repo: Path) -> None:
    (repo.parent / "alias").symlink_to(repo)
    (repo / "src").mkdir()
    assert "inside" in refused(f"{repo}/ops/evil.py:rollback", repo=repo.parent / "alias" / "src")


def test_a_package_in_the_target_repository_is_refused(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(repo)
    assert "inside the target" in refused("ops.evil:rollback", repo=repo)


def test_a_file_beside_the_target_repository_is_loaded(
    repo: Path, deploy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    assert find_blueprint("../ops/deploy.py:rollback", repo=".").name == "rollback"


def test_a_target_by_url_refuses_nothing(deploy: Path) -> None:
    found = find_blueprint(f"{deploy}:rollback", repo="https://example.test/shop.git")
    assert found.name == "rollback"


def test_a_target_by_file_url_is_a_local_path(repo: Path) -> None:
    with pytest.raises(BlueprintInvalid, match="inside the target"):
        find_blueprint(f"{repo}/ops/evil.py:rollback", repo=f"file://{repo}")


def test_a_built_in_blueprint_may_work_on_its_own_source() -> None:
    assert find_blueprint("review", repo=str(Path(__file__).parent)).name == "review"
