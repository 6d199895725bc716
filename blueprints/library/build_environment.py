"""The blueprint of `harness env build`: it installs the project and keeps its environment."""

from blueprints.dsl import blueprint, deterministic, preflight
from nodes.checks import has_tools
from nodes.projects.options import PROJECT_OPTIONS
from nodes.projects.work import look_for_tests, require_install

build_environment = blueprint(
    "build-environment",
    "Install the project and keep its environment for later runs",
    [
        preflight("tools", "Git is there", has_tools("git")),
        preflight("project", "Look for how the project is tested", look_for_tests),
        deterministic("install", "Install the project", require_install),
    ],
    options=PROJECT_OPTIONS,
)
