"""What a project's own pytest options ask for that a bare image does not have."""

import shlex

from nodes.projects.files import ProjectFiles, table_at

_INI = (("pytest.ini", "pytest"), (".pytest.ini", "pytest"))
_INI_AFTER = (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"))
_WITH_VALUE = (
    "--cov", "--cov-report", "--cov-config", "--cov-context", "--cov-fail-under", "--cov-precision",
    "-n", "--numprocesses", "--dist", "--maxprocesses", "--maxschedchunk", "--max-worker-restart",
)  # fmt: skip
_PLUGINS = (*_WITH_VALUE, "--no-cov", "--loadscope-reorder", "--no-loadscope-reorder")


def pytest_options(files: ProjectFiles) -> tuple[str, ...]:
    """Options that take coverage and parallel running out of the project's `addopts`.

    Their plugins are seldom in an image, pytest refuses to start without them, and they
    say nothing about whether tests pass. Nothing is given when `addopts` asks for neither.
    """
    asked = _addopts(files)
    kept = _without_plugins(asked)
    return () if kept == asked else ("-o", f"addopts={shlex.join(kept)}")


def _addopts(files: ProjectFiles) -> list[str]:
    for name, section in _INI:
        if name in files.names:
            return _words(files.ini(name).get(section, "addopts", fallback=""))
    options = table_at(files.toml("pyproject.toml"), "tool", "pytest", "ini_options")
    if options:
        return _words(options.get("addopts"))
    for name, section in _INI_AFTER:
        if files.ini(name).has_section(section):
            return _words(files.ini(name).get(section, "addopts", fallback=""))
    return []


def _words(addopts: object) -> list[str]:
    if isinstance(addopts, list):
        return [str(word) for word in addopts]
    try:
        return shlex.split(addopts, comments=True) if isinstance(addopts, str) else []
    except ValueError:
        return []


def _without_plugins(words: list[str]) -> list[str]:
    kept: list[str] = []
    value_follows = False
    for word in words:
        if word.startswith(_PLUGINS):
            value_follows = word in _WITH_VALUE
        elif not (value_follows and not word.startswith("-")):
            kept.append(word)
            value_follows = False
        else:
            value_follows = False
    return kept
