"""The Docker engine: everything that creates or removes containers and images.

Podman's service answers the same requests; each comment that names it is about a difference.

Each operation has a client of its own, because a docker-py session is not made for several
threads; connecting costs a millisecond. docker-py is imported when it is first needed.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from contracts.errors import DockerUnavailable, ImageUnavailable, SandboxLost
from sandbox.docker_stream import ByteStream, attach

if TYPE_CHECKING:
    from docker import DockerClient

_PODMAN = "Podman Engine"
_SECCOMP = "seccomp="
_TIMEOUT_S = 120
_DEFAULT_URL = "unix:///var/run/docker.sock"


class ImageInfo(NamedTuple):
    """The id of an image, and the bytes of all its layers."""

    id: str
    size: int


class DockerEngine:
    """The engine that DOCKER_HOST names, or the local one; connects when it is first used."""

    def __init__(self) -> None:
        self._version: str | None = None
        self._is_podman = False

    @property
    def url(self) -> str:
        """The address of the engine."""
        return os.environ.get("DOCKER_HOST") or _DEFAULT_URL

    def create(self, flags: Mapping[str, object]) -> str:
        """Create a container, not started, and return its id.

        A security option `seccomp=PATH` names a profile on this machine, as for the docker command.

        Raises:
            ImageUnavailable, DockerUnavailable.
            SandboxLost: the engine refuses.
        """
        with self.client(f"create a container of {flags['image']!r}") as client:
            options = flags.get("security_opt")
            if isinstance(options, list) and not self._is_podman:  # Podman reads the file itself
                options = [_with_profile(option) for option in options]
            return str(client.containers.create(**{**flags, "security_opt": options}).id)

    def start(self, container: str) -> None:
        """Start a container.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"start container {container[:12]}") as client:
            client.api.start(container)

    def attach(self, container: str) -> ByteStream:
        """Return the stream of the running container's main process.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"talk to container {container[:12]}") as client:
            return attach(client, container)

    def has(self, container: str) -> bool:
        """Return whether the container exists."""
        from docker.errors import NotFound

        with self.client(f"look at container {container[:12]}") as client:
            try:
                client.api.inspect_container(container)
            except NotFound:
                return False
        return True

    def remove(self, container: str) -> None:
        """Remove a container, running or not, and wait until it is gone."""
        from docker.errors import APIError, NotFound

        with self.client(f"remove container {container[:12]}") as client, suppress(NotFound):
            try:
                client.api.remove_container(container, force=True, v=True)
            except APIError as error:
                late = "did not receive an exit event" in str(error.explanation)
                if error.status_code == 409 or late:  # it is being removed, or was told to end
                    client.api.wait(container, condition="removed")
                elif self._is_podman:  # it fails if the container ends by itself at this moment
                    client.api.wait(container, condition="not-running")
                    client.api.remove_container(container, force=True, v=True)
                else:
                    raise

    def commit(self, container: str, labels: Mapping[str, str]) -> str:
        """Save the container's files as an image and return its id.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"keep the files of container {container[:12]}") as client:
            # Podman removes unnamed parents along with an image: snapshots that are still needed.
            name = f"harness-snapshot-{uuid4().hex}" if self._is_podman else None
            made = client.api.commit(container, name, changes=_label_lines(labels))
            return _image_id(made["Id"])

    def tag(self, image: str, name: str) -> None:
        """Give an image a name, such as `repository:tag`."""
        repository, _, tag = name.partition(":")
        with self.client(f"name image {image[:19]}") as client:
            client.api.tag(image, repository, tag, force=True)

    def image(self, name: str) -> ImageInfo:
        """Return what identifies an image, whatever name it gets later.

        Raises:
            ImageUnavailable, DockerUnavailable.
        """
        with self.client(f"look at image {name[:60]}") as client:
            found = client.api.inspect_image(name)
        return ImageInfo(_image_id(found["Id"]), int(found["Size"]))

    def layers(self, image: str) -> int:
        """Return the number of layers of an image."""
        with self.client(f"look at image {image[:19]}") as client:
            return len(client.api.inspect_image(image)["RootFS"]["Layers"])

    def flatten(self, image: str, labels: Mapping[str, str], ours: Mapping[str, str]) -> str:
        """Rewrite an image as one layer with the same environment; return the new image's id.

        The temporary container gets the labels `ours`, so that the reaper finds it.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        container = self.create({"image": image, "command": ["true"], "labels": dict(ours)})
        try:
            with (
                self.client(f"read the files of image {image[:19]}") as source,
                self.client(f"make one layer of image {image[:19]}") as target,
            ):
                # An import has no configuration: PATH and LANG of the image would be lost.
                env = source.api.inspect_image(image)["Config"]["Env"] or []
                changes = [
                    f"ENV {name}={json.dumps(value)}"
                    for name, _, value in (pair.partition("=") for pair in env)
                ]
                changes += _label_lines(labels)
                said = target.api.import_image_from_stream(
                    source.api.export(container), changes=changes
                )
        finally:
            self.remove(container)
        return imported_image(said)

    def remove_image(self, image: str) -> bool:
        """Remove an image; return False if it is still in use, True if it was gone already."""
        from docker.errors import APIError, NotFound

        with self.client(f"remove image {image[:19]}") as client:
            try:
                if self._is_podman:  # it refuses to remove an image by its id if it has two names
                    for name in client.api.inspect_image(image)["RepoTags"][1:]:
                        client.api.remove_image(name)
                # Pruning would remove untagged parents too: older snapshots that are still needed.
                client.api.remove_image(image, noprune=True)
            except NotFound:
                return True
            except APIError as error:
                if error.status_code != 409:
                    raise
                return False
        return True

    @contextmanager
    def client(self, wanted: str) -> Iterator["DockerClient"]:
        """A Docker client for one operation, with errors converted to ours.

        `wanted` completes the sentence "wanted to …".
        """
        from docker import constants, errors
        from requests.exceptions import RequestException

        try:
            if self._version is None:
                _check_address(self.url)
                with closing(_connect(constants.MINIMUM_DOCKER_API_VERSION)) as client:
                    version = client.api.version(api_version=False)
                self._is_podman = _PODMAN in (part["Name"] for part in version["Components"])
                self._version = str(version["ApiVersion"])
            client = _connect(self._version)
        except (errors.DockerException, RequestException, OSError, ValueError) as error:
            raise _unreachable(self.url, error) from error
        try:
            yield client
        except errors.ImageNotFound as error:
            raise ImageUnavailable(
                f"wanted to {wanted}, but there is no such image: `make setup` builds the base "
                f"image. The engine said: {error.explanation}"
            ) from error
        except errors.APIError as error:
            raise SandboxLost(f"wanted to {wanted}: {error.explanation or error}") from error
        except (errors.DockerException, RequestException) as error:
            raise _unreachable(self.url, error) from error
        finally:
            with suppress(RequestException):
                client.close()


def _check_address(url: str) -> None:
    """Raise OSError if no process listens on the Unix socket of this URL.

    Raises:
        DockerUnavailable: the URL is one of SSH, over which docker-py has no stream for a sandbox.
    """
    if url.startswith("ssh://"):
        host = url.removeprefix("ssh://")
        raise DockerUnavailable(
            f"DOCKER_HOST is {url}: a sandbox needs the engine's socket. Forward it with "
            f"`ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock {host} &`, and set "
            "DOCKER_HOST=unix:///tmp/engine.sock"
        )
    path = url.removeprefix("unix://")
    if path != url:
        with socket.socket(socket.AF_UNIX) as probe:  # docker-py would leak a socket
            probe.connect(path)


def _unreachable(url: str, error: Exception) -> DockerUnavailable:
    return DockerUnavailable(
        f"no Docker engine answers at {url} ({error}): "
        "start it (`make setup` does), or set DOCKER_HOST"
    )


def _connect(version: str) -> "DockerClient":
    """Return a client that ignores REQUESTS_CA_BUNDLE and HTTP_PROXY."""
    import docker

    client = docker.from_env(version=version, timeout=_TIMEOUT_S)
    # With them, requests would go to a company's proxy or trust its certificates only.
    client.api.trust_env = False
    return client


def _with_profile(option: str) -> str:
    """Return a security option with a seccomp profile's text instead of its path."""
    if not option.startswith(_SECCOMP):
        return option
    return _SECCOMP + Path(option.removeprefix(_SECCOMP)).read_text()


def _label_lines(labels: Mapping[str, str]) -> list[str]:
    """Return the labels as lines of a Dockerfile."""
    return [f"LABEL {json.dumps(name)}={json.dumps(value)}" for name, value in labels.items()]


def _image_id(given: str) -> str:
    """Return the id with its algorithm, which some of Podman's answers leave out."""
    return f"sha256:{given.removeprefix('sha256:')}"


def imported_image(said: str) -> str:
    """Return the id of the image that an import created."""
    last = json.loads(said.strip().splitlines()[-1])
    if "status" not in last:
        raise SandboxLost(f"the engine could not import a snapshot: {last}")
    return _image_id(last["status"])
