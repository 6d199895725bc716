"""Which programs a run's project needs, found in the base commit before any sandbox is there."""

from collections.abc import Callable, Collection
from functools import cache
from pathlib import PurePosixPath

from flows.config.settings import Settings
from flows.runs.request import ResolvedRequest
from nodes.agents.table import agent_rows
from nodes.projects.find import detect
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.types import MAX_TEXT_BYTES, ProjectFiles
from sandbox.commit_files import CommitFiles, commit_files
from sandbox.diffs import changed_paths
from sandbox.engine import DockerEngine
from sandbox.images import ImageRecipe, agents_recipe, ensure_image, toolchain_recipe
from sandbox.repos import BaseCommit
from sandbox.spec import WORK_DIR


def toolchain_preparer(
    settings: Settings, engine: Callable[[], DockerEngine]
) -> Callable[[ResolvedRequest, BaseCommit, Callable[[str], None]], ResolvedRequest]:
    """Return a function that adds the toolchain of the project to a request and builds its image.

    It adds none if the settings name an image, or if the blueprint installs and tests no project.
    """

    def prepare(
        request: ResolvedRequest, base: BaseCommit, on_line: Callable[[str], None]
    ) -> ResolvedRequest:
        options = request.definition.options
        if settings.sandbox.image or not PROJECT_OPTIONS.items() <= dict(options).items():
            return request
        files = project_files(commit_files(base, MAX_TEXT_BYTES))
        # Which packages a project needs is the same with a network and without.
        project = detect(
            files,
            request.options,
            work_dir=WORK_DIR,
            can_reach=lambda _: True,
            changed=lambda: changed_paths(base, base.forked_at or base.commit, base.commit),
        )
        prepared = request.changed(toolchain=project.packages)
        ensure_image(engine(), image_recipe(prepared), on_line)
        return prepared

    return prepare


def image_recipe(request: ResolvedRequest) -> ImageRecipe:
    """Return the image of a request, with its toolchain and, if needed, the agents' programs."""
    return toolchain_recipe(agents_image(request.agents), request.toolchain)


def agents_image(agents: Collection[str]) -> ImageRecipe:
    """Return the image with the programs of these agents."""
    packages = {name: agent_rows()[name].packages for name in agents}
    return agents_recipe({name: found for name, found in packages.items() if found})


def project_files(commit: CommitFiles) -> ProjectFiles:
    """Return a commit's files as the detection takes them."""
    folders = {
        str(parent)
        for path in commit.paths
        for parent in PurePosixPath(path).parents
        if parent.name
    }
    return ProjectFiles(commit.paths | folders | {".git"}, cache(commit.read))
