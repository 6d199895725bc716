"""Node projects: package.json has the test script, the lock file names the package manager."""

from nodes.projects.types import ParsedTable, Project, ProjectFiles, table_at

_INSTALL = {
    "pnpm-lock.yaml": ("pnpm", "install", "--frozen-lockfile"),
    "yarn.lock": ("yarn", "install", "--frozen-lockfile"),
    "bun.lockb": ("bun", "install", "--frozen-lockfile"),
    "bun.lock": ("bun", "install", "--frozen-lockfile"),
    "package-lock.json": ("npm", "ci", "--no-audit", "--no-fund"),
    "npm-shrinkwrap.json": ("npm", "ci", "--no-audit", "--no-fund"),
}
_INSTALL_UNLOCKED = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund")
_NPM_PLACEHOLDER = "no test specified"
_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "workspaces")


def node_project(files: ProjectFiles) -> Project | None:
    """Return how a Node project is installed and tested, or None without a package.json."""
    if "package.json" not in files.names:
        return None
    package = files.json("package.json")
    lock = next((name for name in _INSTALL if name in files.names), None)
    install = _INSTALL[lock] if lock else _INSTALL_UNLOCKED
    script = table_at(package, "scripts").get("test")
    has_test = isinstance(script, str) and bool(script.strip()) and _NPM_PLACEHOLDER not in script
    return Project(
        kind="node",
        why="package.json has a test script" if has_test else "package.json has no test script",
        install=install if _has_dependencies(package) else None,
        test=(install[0], "run", "test") if has_test else None,
        env={"CI": "1"},  # keeps test runners out of their interactive watch mode
    )


def _has_dependencies(package: ParsedTable) -> bool:
    return any(package.get(key) for key in _DEPENDENCIES)
