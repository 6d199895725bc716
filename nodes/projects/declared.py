"""What a repository says of its environment: `.harness/environment.toml` and its dev container.

It can ask for packages and name commands, which run in the sandbox like any other. It can ask for
no host, image or privilege: such a field is refused by name.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from tomllib import TOMLDecodeError

from pydantic import BaseModel, Field, ValidationError

from contracts.errors import BadInput
from contracts.json import as_mapping
from nodes.projects.options import MAX_TEST_TIMEOUT_S, check_packages, command_option
from nodes.projects.types import ProjectFiles, table_at
from nodes.projects.versions import node_package

ENVIRONMENT = ".harness/environment.toml"
_DEV_CONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a repository says of itself. `source` is the file; empty if there is none."""

    source: str = ""
    project: str = ""
    install: tuple[str, ...] | None = None
    install_optional: bool = False
    test: tuple[str, ...] | None = None
    test_timeout_s: float | None = None
    packages: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class _EnvironmentFile(BaseModel, frozen=True, extra="forbid"):
    packages: tuple[str, ...] = ()
    """Debian packages that the sandbox needs."""
    install: str = ""
    test: str = ""
    timeout: float | None = Field(default=None, gt=0, le=MAX_TEST_TIMEOUT_S)
    """Time limit of one test run in seconds."""
    project: str = Field(default="", pattern=r"^([\w.-]+(/[\w.-]+)*)?$")
    """Folder of the project."""


def declared(files: ProjectFiles, *, online: Callable[[], bool]) -> Declared:
    """Return what the repository says of its environment.

    Raises:
        BadInput: its `.harness/environment.toml` cannot be used; the message names the field.
    """
    versions = node_package(files)
    if ENVIRONMENT in files.paths:
        return _environment_file(files, versions)
    name = next((name for name in _DEV_CONTAINERS if name in files.paths), None)
    if name is None:
        return Declared(packages=versions)
    return _dev_container(files, name, versions, online=online)


def _environment_file(files: ProjectFiles, versions: tuple[str, ...]) -> Declared:
    try:
        said = _EnvironmentFile.model_validate(tomllib.loads(files.text(ENVIRONMENT)))
    except TOMLDecodeError as error:
        raise BadInput(f"{ENVIRONMENT} of the repository is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        known = ", ".join(_EnvironmentFile.model_fields)
        raise BadInput(
            f"{ENVIRONMENT} of the repository: {field}: {first['msg']}. It can have {known}"
        ) from error
    check_packages(said.packages, where=ENVIRONMENT)
    return Declared(
        source=ENVIRONMENT,
        project=said.project,
        install=command_option(said.install),
        test=command_option(said.test),
        test_timeout_s=said.timeout,
        packages=(*versions, *said.packages),
    )


def _dev_container(
    files: ProjectFiles, name: str, versions: tuple[str, ...], *, online: Callable[[], bool]
) -> Declared:
    data = _json_with_comments(files.text(name))
    after = data.get("postCreateCommand")
    match after:
        case str() if after.strip():
            lines = [after]
        case list() if after:
            lines = [shlex.join(map(str, after))]
        case dict():
            lines = [v if isinstance(v, str) else shlex.join(map(str, v)) for v in after.values()]
        case _:
            lines = []
    # Most such commands fetch something; without a network the rule for the ecosystem fits better.
    install = ("sh", "-ec", "\n".join(lines)) if lines and online() else None
    return Declared(
        source=f"{name} (postCreateCommand)" if install else "",
        install=install,
        packages=versions,
        notices=tuple(_refused(data, name)),
    )


def _refused(data: object, name: str) -> Iterator[str]:
    features = [str(one) for one in table_at(data, "features")]
    if features:
        yield f"{name}: features are not used: {', '.join(features)}"
    named = [
        key
        for key in ("image", "build", "dockerFile", "dockerComposeFile")
        if key in as_mapping(data)
    ]
    if named:
        yield f"{name}: {', '.join(named)}: not used, the sandbox has an image of its own"


def _json_with_comments(text: str) -> dict[str, object]:
    plain = _TRAILING_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text))
    try:
        return dict(as_mapping(json.loads(plain)))
    except (ValueError, RecursionError):
        return {}
