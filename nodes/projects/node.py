"""Node projects: package.json says how to test, the lock file says who installs."""

from nodes.projects.files import ParsedTable, ProjectFiles, table_at
from nodes.projects.types import Project

_INSTALL = {
    "pnpm-lock.yaml": ("pnpm", "install", "--frozen-lockfile"),
    "yarn.lock": ("yarn", "install", "--frozen-lockfile"),
    "bun.lockb": ("bun", "install", "--frozen-lockfile"),
    "bun.lock": ("bun", "install", "--frozen-lockfile"),
    "package-lock.json": ("npm", "ci", "--no-audit", "--no-fund"),
    "npm-shrinkwrap.json": ("npm", "ci", "--no-audit", "--no-fund"),
}
_INSTALL_UNLOCKED = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund")
_NO_TESTS_YET = "no test specified"
_NEEDS = ("dependencies", "devDependencies", "optionalDependencies", "workspaces")


def node_project(files: ProjectFiles) -> Project | None:
    """How this Node project installs and tests itself; None when it has no package.json.

    `CI=1` keeps test runners from waiting for a person. A project that depends on nothing
    installs nothing.
    """
    if "package.json" not in files.names:
        return None
    package = files.json("package.json")
    lock = next((name for name in _INSTALL if name in files.names), None)
    install = _INSTALL[lock] if lock else _INSTALL_UNLOCKED
    script = table_at(package, "scripts").get("test")
    has_test = isinstance(script, str) and bool(script.strip()) and _NO_TESTS_YET not in script
    return Project(
        kind="node",
        why="package.json has a test script" if has_test else "package.json has no test script",
        install=install if _needs_install(package) else None,
        test=(install[0], "run", "test") if has_test else None,
        env={"CI": "1"},
    )


def _needs_install(package: ParsedTable) -> bool:
    return any(package.get(key) for key in _NEEDS)
