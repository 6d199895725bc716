"""Fetch a real project from its registry and make a repository of it, with one planted bug."""

import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from flows.config.environment import environment
from sandbox.git import OURS, RuledGit

_ARCHIVES = (
    "apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
    "Created-By: Packages", "Origin: Debian",
)  # fmt: skip
"""Prints the archives that this machine's packages come from, as archives of sources."""


class NotFetched(Exception):
    """The registry does not give this project; the message is the last line of its client."""


class FieldProject(BaseModel, frozen=True, extra="forbid"):
    """One project of `projects.toml`."""

    name: str
    version: str
    source: Literal["pypi", "npm", "debian", "debian-binary"]
    """`debian-binary`: a package that holds sources, which Debian's mirrors keep more often."""
    language: str
    folder: str = ""
    """The project's folder in a `debian-binary` package."""
    file: str
    right: str
    wrong: str


def field_projects() -> list[FieldProject]:
    """Return the projects of the benchmark."""
    data = tomllib.loads(Path(__file__).with_name("projects.toml").read_text())
    return [FieldProject.model_validate(one) for one in data["project"]]


def make_repository(project: FieldProject, place: Path) -> Path:
    """Return a repository of the project with one commit, in which the bug is.

    Raises:
        NotFetched: the registry does not give it, or the text of the bug is not in it.
    """
    downloads, unpacked = place / "downloads", place / "unpacked"
    downloads.mkdir(parents=True)
    unpacked.mkdir()
    _download(project, downloads)
    found = [path for path in downloads.iterdir() if project.version in path.name]
    if not found:
        raise NotFetched(f"no archive of version {project.version}")
    repository = place / project.name
    _unpack(found[0], unpacked, project.folder).rename(repository)
    file = repository / project.file
    text = file.read_text() if file.exists() else ""
    if project.right not in text:
        raise NotFetched(f"{project.file} has no {project.right!r}")
    broken = text.replace(project.right, project.wrong, 1)
    if broken.replace(project.wrong, project.right, 1) != text:
        raise NotFetched(f"{project.file} has {project.wrong!r} already")
    file.write_text(broken)
    git = RuledGit(repository, OURS)
    git.init("--quiet", "--initial-branch=main")
    git.add("--all", "--force")
    identity = ["user.name=Field", "user.email=field@localhost"]
    git(c=identity).commit("--quiet", "-m", f"{project.name} {project.version}")
    return repository


def _download(project: FieldProject, downloads: Path) -> None:
    exact = f"{project.name}=={project.version}"
    match project.source:
        case "pypi":
            pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
            _run((*pip, "--no-binary=:all:", "--dest", ".", exact), downloads)
        case "npm":
            _run(("npm", "pack", "--silent", exact.replace("==", "@")), downloads)
        case "debian":
            apt = _apt_sources(downloads.parents[1])
            # Mirrors often lack the other files of a source package.
            _run((*apt, "source", "--download-only", "--tar-only", project.name), downloads)
        case "debian-binary":
            _run(("apt-get", "--quiet", "download", project.name), downloads)


def _unpack(archive: Path, unpacked: Path, folder: str) -> Path:
    """Return the project's folder in the archive."""
    if archive.suffix == ".deb":
        _run(("dpkg-deb", "--extract", str(archive), str(unpacked)), unpacked)
        return unpacked / folder
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    inside = list(unpacked.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else unpacked


def _apt_sources(place: Path) -> tuple[str, ...]:
    """Return apt-get with an index of sources of its own, fetched once."""
    lists, sources = place / "apt-lists", place / "apt-sources.list"
    options = (
        "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
        "-o", f"Dir::State::Lists={lists}",
    )  # fmt: skip
    if not sources.exists():
        (lists / "partial").mkdir(parents=True)
        sources.write_text(_run(_ARCHIVES, place))
        _run(("apt-get", *options, "--quiet", "update"), place)
    return ("apt-get", *options, "--quiet")


def _run(argv: tuple[str, ...], cwd: Path) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NotFetched(lines[-1] if lines else f"{argv[0]} exited with {done.returncode}")
    return done.stdout
