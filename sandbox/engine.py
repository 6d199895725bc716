"""The Docker engine: containers and images begin and end here.

Each operation has a client of its own, because a docker-py session is not made for several
threads; connecting costs a millisecond. docker-py is imported when it is first needed.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from contracts.errors import ImageUnavailable, SandboxLost
from sandbox.docker_stream import (
    ByteStream,
    EngineAddress,
    check_reachable,
    engine_unreachable,
    open_stream,
)

if TYPE_CHECKING:
    from docker import DockerClient

_TIMEOUT_S = 120
_DEFAULT_URL = "unix:///var/run/docker.sock"


class RunningContainer(NamedTuple):
    """A running container; `image` is the name it was made from while that means the same."""

    id: str
    name: str
    image: str


class DockerEngine:
    """The engine that DOCKER_HOST names, or the local one; nothing connects before it is used."""

    def __init__(self) -> None:
        self._version: str | None = None

    @property
    def url(self) -> str:
        """Where the engine is looked for."""
        return os.environ.get("DOCKER_HOST") or _DEFAULT_URL

    def create(self, flags: Mapping[str, object]) -> str:
        """Make a container and give its id; it does not run yet.

        Raises:
            ImageUnavailable, DockerUnavailable.
            SandboxLost: the engine refuses.
        """
        with self.client(f"create a container of {flags['image']!r}") as client:
            return str(client.containers.create(**flags).id)

    def start(self, container: str) -> None:
        """Start a container.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"start container {container[:12]}") as client:
            client.api.start(container)

    def attach(self, container: str) -> tuple[ByteStream, bytes]:
        """The stream of the container's main process, best taken before `start`.

        Also gives the bytes that came already.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"talk to container {container[:12]}") as client:
            version = client.api.api_version
        wanted = "stream=1&stdin=1&stdout=1&stderr=1"
        return open_stream(self._address(), f"/v{version}/containers/{container}/attach?{wanted}")

    def run(self, container: str, argv: Sequence[str]) -> tuple[ByteStream, bytes]:
        """Run argv in the container as root; give its stream and the bytes that came already.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"run a process in container {container[:12]}") as client:
            made = client.api.exec_create(container, list(argv), stdin=True, user="0")
            path = f"/v{client.api.api_version}/exec/{made['Id']}/start"
        return open_stream(self._address(), path)

    def running(self, wanted: Mapping[str, str]) -> list[RunningContainer]:
        """The running containers with these labels."""
        pairs = [f"{label}={value}" for label, value in wanted.items()]
        with self.client("look for containers") as client:
            found = client.api.containers(filters={"label": pairs, "status": "running"})
        return [
            RunningContainer(
                str(entry["Id"]), str(entry["Names"][0]).lstrip("/"), str(entry["Image"])
            )
            for entry in found
        ]

    def rename(self, container: str, name: str) -> bool:
        """Give a container another name; False when it has that name, or is gone."""
        from docker.errors import APIError

        with self.client(f"rename container {container[:12]}") as client:
            try:
                client.api.rename(container, name)
            except APIError as error:
                if error.status_code not in (400, 404, 409):
                    raise
                return False
        return True

    def has(self, container: str) -> bool:
        """Whether the container is there."""
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
                if error.status_code != 409:
                    raise
                client.api.wait(container, condition="removed")

    def commit(self, container: str, labels: Mapping[str, str]) -> str:
        """Keep the container's files as an image; give the image's id.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"keep the files of container {container[:12]}") as client:
            made = client.api.commit(container, conf={"Labels": dict(labels)})
            return str(made["Id"])

    def layers(self, image: str) -> int:
        """How many layers an image has."""
        with self.client(f"look at image {image[:19]}") as client:
            return len(client.api.inspect_image(image)["RootFS"]["Layers"])

    def flatten(self, image: str, labels: Mapping[str, str], ours: Mapping[str, str]) -> str:
        """The same files and the same environment as one layer; give the new image's id.

        The container that is needed meanwhile bears `ours`: it is nobody's once we are dead.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        container = self.create({"image": image, "command": ["true"], "labels": dict(ours)})
        try:
            with (
                self.client(f"read the files of image {image[:19]}") as source,
                self.client(f"make one layer of image {image[:19]}") as target,
            ):
                env = source.api.inspect_image(image)["Config"]["Env"] or []
                changes = [
                    f"ENV {name}={json.dumps(value)}"
                    for name, _, value in (pair.partition("=") for pair in env)
                ]
                changes += [f"LABEL {json.dumps(k)}={json.dumps(v)}" for k, v in labels.items()]
                said = target.api.import_image_from_stream(
                    source.api.export(container), changes=changes
                )
        finally:
            self.remove(container)
        return _imported(said)

    def remove_image(self, image: str) -> bool:
        """Remove an image; False when something still uses it, True also when it was gone."""
        from docker.errors import APIError, ImageNotFound

        with self.client(f"remove image {image[:19]}") as client:
            try:
                client.api.remove_image(image, noprune=True)
            except ImageNotFound:
                return True
            except APIError as error:
                if error.status_code != 409:
                    raise
                return False
        return True

    @contextmanager
    def client(self, wanted: str) -> Iterator["DockerClient"]:
        """A docker client for one operation, whose errors come out as ours.

        `wanted` completes the sentence "wanted to …".
        """
        from docker import constants, errors
        from requests.exceptions import RequestException

        try:
            if self._version is None:
                check_reachable(self._address())  # docker-py leaks a socket where nobody answers
                with closing(_connect(constants.MINIMUM_DOCKER_API_VERSION)) as client:
                    self._version = str(client.api.version(api_version=False)["ApiVersion"])
            client = _connect(self._version)
        except (errors.DockerException, RequestException, ValueError) as error:
            raise engine_unreachable(self.url, error) from error
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
            raise engine_unreachable(self.url, error) from error
        finally:
            with suppress(RequestException):
                client.close()

    def _address(self) -> EngineAddress:
        from docker.utils import kwargs_from_env

        tls = kwargs_from_env().get("tls")
        if not tls:
            return EngineAddress(self.url)
        url = self.url.replace("tcp://", "https://", 1)
        return EngineAddress(url, tls.ca_cert, tls.cert, bool(tls.verify))


def _connect(version: str) -> "DockerClient":
    """A client that heeds docker's own variables, and not REQUESTS_CA_BUNDLE or HTTP_PROXY."""
    import docker

    client = docker.from_env(version=version, timeout=_TIMEOUT_S)
    client.api.trust_env = False
    return client


def _imported(said: str) -> str:
    """The id of the image that an import has made."""
    last = json.loads(said.strip().splitlines()[-1])
    if "status" not in last:
        raise SandboxLost(f"the engine could not import a snapshot: {last}")
    return str(last["status"])
