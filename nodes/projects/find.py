"""Detect how a project is installed and tested."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from contracts.errors import OptionInvalid
from contracts.run import RunContext
from contracts.sandbox import Sandbox
from nodes.changes import branch_changes
from nodes.projects.ci import CiTest, ci_test
from nodes.projects.declared import Declared, declared
from nodes.projects.ecosystems import (
    WRAPPING,
    ecosystem,
    ecosystems,
    may_be_sign,
    project_of,
    toolchain,
)
from nodes.projects.manifests import package_indexes
from nodes.projects.options import command_option, folder_option, package_option
from nodes.projects.python import is_clearly_python, python_project
from nodes.projects.types import FACT_FIELDS, Online, Project, ProjectFiles, sandbox_files

PROJECT_FACT = "project"
"""The key of `Project.fact` in the facts of a preflight node."""

_OVERRIDDEN = "; overridden by --set test"
_MOST_FOLDERS = 50
"""Folders that are looked at for a project, if the repository's own is none."""


def find_project(ctx: RunContext, sandbox: Sandbox) -> Project:
    """Return the project in the workspace; see `detect`.

    The commands that a preflight node found stay the same for the whole run, whatever agents
    change; only an install command that the repository does not itself name is detected again.

    Raises:
        OptionInvalid: a quote in an option is not closed, or a path or package is none.
    """
    facts = (r.facts[PROJECT_FACT] for r in ctx.results.values() if PROJECT_FACT in r.facts)
    fact = next(facts, None)
    files, can_reach = sandbox_files(sandbox), reachable(ctx)
    if fact is None:
        return detect(
            files,
            ctx.options,
            work_dir=sandbox.work_dir,
            can_reach=can_reach,
            changed=lambda: branch_changes(sandbox),
        )
    before = _from_fact(fact)
    if before.declared:
        return _with_options(before, ctx.options)
    root = _root(sandbox.work_dir, before.folder)
    kinds = _kinds(_below(files, before.folder), root, can_reach)
    now = next((one for one in kinds if one.kind == before.kind), replace(before, install=None))
    found = replace(
        before,
        env=now.env,
        # An agent that deletes the install files must not turn "install" into "nothing to install".
        install=now.install or before.install,
        install_files=now.install_files,
        install_optional=now.install_optional,
    )
    return _with_options(found, ctx.options)


def detect(
    files: ProjectFiles,
    options: Mapping[str, str],
    *,
    work_dir: str,
    can_reach: Online,
    changed: Callable[[], Collection[str]] = tuple,
) -> Project:
    """Return the project that these files of a repository are. Nothing of them is executed.

    What the options say counts first, then the repository's `.harness/environment.toml`, then its
    dev container, then the table of ecosystems: of several that fit the first with tests. If the
    repository's own folder has no tests, the only folder inside that has some is the project, or of
    several the only one in which the branch `changed` files. What CI runs comes last.

    Raises:
        OptionInvalid: a quote in an option is not closed, or a path or package is none.
    """
    said = declared(files, online=lambda: any(map(can_reach, package_indexes(files.names))))
    named = folder_option(options) or said.project
    here = _below(files, named)
    if named and not here.paths - {".git"}:
        raise OptionInvalid(f"the project's folder {named!r} is not in the repository")
    kinds = _kinds(here, _root(work_dir, named), can_reach)
    project = replace(_choose(kinds), folder=named)
    is_open = project.test is None and not (said.test or "test" in options)
    if is_open and not named:
        project = _inside(files, work_dir, project, can_reach, changed)
    if is_open and project.test is None and (found := ci_test(here)):
        project = _tested_as_in_ci(project, found, here)
    return _with_options(_with_declared(project, said), options)


def has_network(ctx: RunContext) -> bool:
    """Return True if the run's commands can reach hosts outside the sandbox."""
    return "HTTPS_PROXY" in ctx.env


def reachable(ctx: RunContext) -> Online:
    """Return which package indexes installs of this run can reach."""
    if has_network(ctx):
        return lambda _: True
    installs = ctx.installs
    return lambda index: installs is not None and not installs.unreachable(index)


def _root(work_dir: str, folder: str) -> str:
    return f"{work_dir}/{folder}" if folder else work_dir


def _below(files: ProjectFiles, folder: str) -> ProjectFiles:
    return files.below(folder) if folder else files


def _kinds(files: ProjectFiles, root: str, can_reach: Online) -> list[Project]:
    """Return what these files can be, the most likely first."""
    python = python_project(files, root, can_reach)
    rows = [(row, project_of(row, files, can_reach)) for row in ecosystems()]
    own = [project for row, project in rows if project is not None and not row.wraps]
    wrapping = [project for row, project in rows if project is not None and row.wraps]
    if python is None:
        return [*own, *wrapping]
    first = [python, *own] if is_clearly_python(files) else [*own, python]
    return [*first, *wrapping]


def _choose(kinds: Sequence[Project]) -> Project:
    """Return the first with tests; its `why` names the others with tests."""
    tested = [project for project in kinds if project.test]
    if not kinds:
        return Project(kind="unknown", why="no file of an ecosystem that Harness knows")
    if not tested:
        return replace(kinds[0], why="; ".join(project.why for project in kinds))
    first, *others = tested
    if not others:
        return first
    also = ", ".join(f"{one.kind} ({one.why})" for one in others)
    return replace(first, why=f"{first.why}; {also} would fit too")


def _tested_as_in_ci(project: Project, found: CiTest, files: ProjectFiles) -> Project:
    more = toolchain(ecosystem(WRAPPING), files)
    packages = tuple(dict.fromkeys((*project.packages, *more)))
    why = f"{project.why}; {found.where} tests it"
    return replace(project, why=why, test=found.argv, packages=packages)


def _inside(
    files: ProjectFiles,
    work_dir: str,
    outer: Project,
    can_reach: Online,
    changed: Callable[[], Collection[str]],
) -> Project:
    """Return the one project with tests in the nearest folders inside, else `outer` with a word."""
    found: list[Project] = []
    for folder in _folders(files):
        if found and folder.count("/") > found[0].folder.count("/"):
            break
        inner = _choose(_kinds(files.below(folder), _root(work_dir, folder), can_reach))
        if inner.test is not None:
            found.append(replace(inner, folder=folder))
    match found:
        case []:
            return outer
        case [only]:
            return replace(only, why=f"{only.why} in {only.folder}, the only project with tests")
        case _ if len(near := _with_changes(found, changed())) == 1:
            why = f"{near[0].why} in {near[0].folder}, the only project with changes of the branch"
            return replace(near[0], why=why)
        case _:
            names = ", ".join(project.folder for project in found)
            why = f"{outer.why}; there are projects in {names}: --set project=PATH chooses one"
            return replace(outer, why=why)


def _with_changes(projects: Sequence[Project], changed: Collection[str]) -> list[Project]:
    return [one for one in projects if any(path.startswith(f"{one.folder}/") for path in changed)]


def _folders(files: ProjectFiles) -> Iterator[str]:
    """Yield folders that a project's file suggests, the nearest first."""
    split = (path.rpartition("/") for path in files.own)
    folders = {folder for folder, _, name in split if folder and may_be_sign(name)}
    yield from sorted(folders, key=lambda folder: (folder.count("/"), folder))[:_MOST_FOLDERS]


def _from_fact(fact: str) -> Project:
    data = json.loads(fact)
    if isinstance(data, list):  # from a run that an earlier version stopped
        data = dict(zip(("kind", "why", "test", "install"), data, strict=True))
    fields = {name: data[name] for name in FACT_FIELDS if name in data}
    for name in ("test", "install"):
        fields[name] = tuple(fields[name]) if fields[name] else None
    return Project(**fields)


def _with_declared(project: Project, said: Declared) -> Project:
    why = f"{project.why}; {said.source} says more" if said.source else project.why
    return replace(
        project,
        why=why,
        test=said.test or project.test,
        install=said.install or project.install,
        install_optional=said.install_optional if said.install else project.install_optional,
        declared=bool(said.install),
        packages=tuple(dict.fromkeys((*project.packages, *said.packages))),
        test_timeout_s=said.test_timeout_s,
        notices=said.notices,
    )


def _with_options(project: Project, options: Mapping[str, str]) -> Project:
    if "install" in options:
        install = command_option(options["install"])
        project = replace(project, install=install, install_optional=False)
    if "test" in options:
        why = f"{project.why.removesuffix(_OVERRIDDEN)}{_OVERRIDDEN}"
        project = replace(project, test=command_option(options["test"]), why=why)
    more = package_option(options)
    return replace(project, packages=tuple(dict.fromkeys((*project.packages, *more))))
