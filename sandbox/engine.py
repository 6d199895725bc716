"""The Docker engine: containers and images begin and end here.

Each operation has a client of its own, because a docker-py session is not made for several
threads; connecting costs a millisecond. docker-py is imported when it is first needed.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from contracts.errors import DockerUnavailable, HarnessError, ImageUnavailable, SandboxLost
from sandbox.attach import Address, Stream, attach, knock

if TYPE_CHECKING:
    from docker import DockerClient

_TIMEOUT_S = 120
_DEFAULT_URL = "unix:///var/run/docker.sock"
_ADVICE = "start it (`make setup` does), or set DOCKER_HOST"


class Engine:
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

    def attach(self, container: str, argv: tuple[str, ...]) -> tuple[Stream, bytes]:
        """Run argv in the container as root; give its stream and the bytes that came already.

        Raises:
            SandboxLost, DockerUnavailable.
        """
        with self.client(f"run a process in container {container[:12]}") as client:
            made = client.api.exec_create(container, list(argv), stdin=True, user="0")
            path = f"/v{client.api.api_version}/exec/{made['Id']}/start"
        return attach(self._address(), path)

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
        import docker
        from docker import errors
        from requests.exceptions import RequestException

        try:
            if self._version is None:
                knock(self._address())  # docker-py leaks a socket where nobody answers
            client = docker.from_env(version=self._version or "auto", timeout=_TIMEOUT_S)
        except (errors.DockerException, RequestException, ValueError) as error:
            raise self._unavailable(error) from error
        self._version = client.api.api_version
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
            raise self._unavailable(error) from error
        finally:
            with suppress(RequestException):
                client.close()

    def _unavailable(self, error: Exception) -> HarnessError:
        return DockerUnavailable(f"no Docker engine answers at {self.url}: {_ADVICE}. ({error})")

    def _address(self) -> Address:
        from docker.utils import kwargs_from_env

        tls = kwargs_from_env().get("tls")
        if not tls:
            return Address(self.url)
        url = self.url.replace("tcp://", "https://", 1)
        return Address(url, tls.ca_cert, tls.cert, bool(tls.verify))
