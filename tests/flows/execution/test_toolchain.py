"""The toolchain of a run's project is found in its base commit, on the host."""

from pathlib import Path

import pytest

from blueprints.library.fix_tests import fix_tests
from blueprints.library.review import review
from blueprints.types import Blueprint
from flows.config.settings import SandboxSettings, Settings
from flows.execution import toolchain
from flows.execution.toolchain import image_recipe, toolchain_preparer
from flows.runs.request import ResolvedRequest
from sandbox.commit_files import commit_files
from sandbox.engine import DockerEngine
from sandbox.images import BASE_RECIPE, ImageRecipe
from sandbox.repos import fetch_base
from tests.support.git_repos import commit_files as commit_them
from tests.support.git_repos import run_git

GO = {"go.mod": b"module x\n"}


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Prepare":
    monkeypatch.setattr(toolchain, "ensure_image", lambda _, image, __: built.append(image))
    built: list[ImageRecipe] = []
    return Prepare(tmp_path, built)


class Prepare:
    """Prepares a request for a repository with these files; `built` are the images it needed."""

    def __init__(self, place: Path, built: list[ImageRecipe]) -> None:
        self._place = place
        self.built = built

    def __call__(
        self,
        files: dict[str, bytes],
        definition: Blueprint = fix_tests,
        later: dict[str, bytes] | None = None,
        **sandbox: str,
    ) -> ResolvedRequest:
        repository = self._place / "repository"
        repository.mkdir()
        run_git(repository, "init", "--quiet", "--initial-branch=main")
        commit_them(repository, files)
        if later:
            run_git(repository, "checkout", "--quiet", "-b", "branch")
            commit_them(repository, later)
        base = fetch_base(str(repository), store=self._place / "store")
        settings = Settings(sandbox=SandboxSettings.model_validate(sandbox))
        request = ResolvedRequest.of(
            blueprint="b", repo=str(repository), definition=definition, model="m", agent="native"
        )
        return toolchain_preparer(settings, DockerEngine)(request, base, lambda _: None)


def test_the_image_has_the_packages_of_the_project(prepared: Prepare) -> None:
    request = prepared(GO)
    assert "golang-go/bookworm-backports" in request.toolchain
    assert prepared.built == [image_recipe(request)]


def test_the_image_fits_the_project_that_the_branch_changed(prepared: Prepare) -> None:
    files = {"a/go.mod": b"module x\n", "b/Cargo.toml": b"[package]\n"}
    request = prepared(files, later={"b/src/lib.rs": b""})
    assert "cargo-web" in request.toolchain
    assert "golang-go/bookworm-backports" not in request.toolchain


def test_two_projects_with_the_same_needs_share_an_image(prepared: Prepare) -> None:
    request = prepared(GO)
    again = request.changed(repo="/elsewhere", toolchain=tuple(reversed(request.toolchain)))
    assert image_recipe(again) == image_recipe(request)


def test_a_project_without_needs_starts_from_the_base_image(prepared: Prepare) -> None:
    assert image_recipe(prepared({"test_a.py": b"import pytest\n"})) is BASE_RECIPE


def test_a_blueprint_that_tests_no_project_needs_no_toolchain(prepared: Prepare) -> None:
    assert prepared(GO, review).toolchain == ()


def test_an_image_of_the_user_s_own_gets_no_packages(prepared: Prepare) -> None:
    assert prepared(GO, image="mine:1").toolchain == ()


def test_a_link_in_the_commit_is_not_read(prepared: Prepare, tmp_path: Path) -> None:
    place = tmp_path / "links"
    place.mkdir()
    (place / "package.json").write_text('{"scripts": {"test": "jest"}}')
    run_git(place, "init", "--quiet", "--initial-branch=main")
    (place / "link").symlink_to("package.json")
    run_git(place, "add", "--all")
    run_git(place, "commit", "--quiet", "-m", "x")
    files = toolchain.project_files(
        commit_files(fetch_base(str(place), store=tmp_path / "s"), 1000)
    )
    assert (files.text("link"), "link" in files.paths) == ("", False)
